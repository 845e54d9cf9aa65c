"""The figures of the best value over a search or several, and of several objectives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from tuner.experiment.events import FAILED
from tuner.experiment.results.comparison import Comparison, Curve, Entrant, Side
from tuner.experiment.results.selection import best_so_far, front_of, hypervolume, points_of
from tuner.experiment.trials import TrialRecord
from tuner.reporting.figures.data import NO_TRIALS, FigureData, evenly, fence_of
from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    COLOURS,
    DASHES,
    GREY,
    STATUS_COLOURS,
    Drawing,
    Plot,
    escaped,
    make_axis,
    make_count_axis,
    make_plot,
    make_value_axis,
    rounded,
    scale_time,
    scatter,
)
from tuner.spec.sections import Objective
from tuner.wording import amount_of

_SO_FAR = {"color": BLUE, "width": 2.5, "shape": "hv"}  # a line of the best so far
_MOST_POINTS = 1000
_MOST_ON_FRONT = 100
_BOUND = 1 + 1e-9  # of the box, in which the worst values lie, too
_BAND = (
    "A line is the mean over the seeds from where all have a value, and its band their range. A "
    "search that has ended keeps its best."
)
_EPOCHS = f"Epochs of all trials together: the training that the search took. {_BAND}"
_TIMES = f"The time in which a search ran, without the gaps between its runs. {_BAND}"
_SAMPLES = 50  # of each curve, evenly over its epochs
_PALE = "26"  # the opacity, in hexadecimal digits, of a band

By = Literal["trial", "epochs", "time"]
_ORDERS = {
    "trial": "Trials in the order of their ids",
    "epochs": "Each trial at its best epoch, by the epochs that all had trained by then",
    "time": "Each trial at its best epoch, by the time of searching until then",
}


def history(data: FigureData, by: By = "trial") -> Drawing:
    """The best value so far, and each trial's own, by trial, by epochs of all, or by time."""
    if not data.ranked:
        return NO_TRIALS, None
    places, last = _place_trials(data, by)
    unit, axis = _make_history_axis(by, last)
    at = {trial_id: place / unit for trial_id, place in places.items()}
    trials = sorted(data.ranked, key=lambda trial: (at[trial.trial_id], trial.number))
    shown = evenly(trials, _MOST_POINTS)
    values = [trial.value for trial in shown]
    steps = best_so_far(((at[t.trial_id], t.value) for t in trials), data.objective)
    steps.append((last / unit, steps[-1][1]))
    x, y = zip(*steps, strict=True)
    plot = make_plot(
        [
            scatter(
                [at[trial.trial_id] for trial in shown],
                rounded(values),
                customdata=[trial.trial_id for trial in shown],
                mode="markers",
                marker={"color": GREY, "size": 6},
                name="a trial's best",
                hovertemplate="trial %{customdata}: %{y:.4g}<extra></extra>",
            ),
            scatter(x, rounded(y), mode="lines", line=_SO_FAR, name="best so far"),
        ],
        x=axis,
        y=make_value_axis(data.objective.metric, values),
    )
    later = sum(at[trial.trial_id] > at[data.ranked[0].trial_id] for trial in trials)
    caption = (
        f"{_ORDERS[by]}: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little."
    )
    if len(shown) < len(trials):
        caption += f" Of {len(trials)} trials {len(shown)} are drawn, evenly."
    return caption, plot


def _make_history_axis(by: By, last: float) -> tuple[float, Plot]:
    """What the places of trials are divided by, and the axis."""
    match by:
        case "trial":
            return 1, make_count_axis("trial", most=last)
        case "epochs":
            return 1, make_count_axis("epochs of all trials", most=last, rangemode="tozero")
        case "time":
            return scale_time(last)


def _place_trials(data: FigureData, by: By) -> tuple[dict[str, float], float]:
    """Where each ranked trial stands, by its number, epochs or seconds, and where the axis ends."""
    if by == "trial":
        return {t.trial_id: t.number for t in data.ranked}, max(t.number for t in data.ranked)
    times = sorted(report.time for trial in data.trials.values() for report in trial.results)
    bests = {trial.trial_id: _best_time(data.trials[trial.trial_id]) for trial in data.ranked}
    if by == "epochs":
        return {i: bisect_right(times, time) for i, time in bests.items()}, len(times)
    *seconds, last = data.results.history.find_searched_s([*bests.values(), times[-1]])
    return dict(zip(bests, seconds, strict=True)), last


def _best_time(trial: TrialRecord) -> float:
    """When the trial reported its best epoch."""
    best = trial.best and trial.report_at(trial.best.epoch)
    return best.time if best else trial.started


def front(data: FigureData) -> Drawing:
    """The first two objectives of each trial by its status, and the front."""
    objective = data.objective
    if not objective.others:
        return None
    points = points_of(data.trials.values(), objective)
    if not points:
        return NO_TRIALS, None
    y, x, *third = objective.goals

    def show(some: list[tuple[tuple[float, ...], TrialRecord]], **style: Any) -> Plot:
        return scatter(
            rounded(x.key(point[1]) for point, _ in some),
            rounded(y.key(point[0]) for point, _ in some),
            customdata=[trial.trial_id for _, trial in some],
            hovertemplate="trial %{customdata}: %{y:.4g}, %{x:.4g}<extra></extra>",
            **style,
        )

    traces = []
    for status, colour in STATUS_COLOURS.items():
        if of_status := [(point, trial) for point, trial in points if trial.status == status]:
            marker = {"color": colour, "size": 6, "opacity": 0.7}
            traces.append(show(of_status, mode="markers", marker=marker, name=status))
    best = front_of((p, trial) for p, trial in points if trial.status != FAILED)
    line = show(
        best,
        mode="markers" if third else "lines+markers",
        line={"color": BLACK, "width": 1, "shape": "vh"},
        marker={"color": BLACK, "size": 9, "symbol": "circle-open"},
        name="front",
    )
    caption = (
        f"Each trial at its best epoch; {y.better} {y.metric} and {x.better} {x.metric} are "
        f"better. No trial beats the {len(best)} on the front in both."
    )
    if third:
        caption += f" The third objective, {third[0].metric}, is not drawn."
    plot = make_plot(
        [*traces, line],
        x=make_value_axis(x.metric, [x.key(point[1]) for point, _ in points]),
        y=make_value_axis(y.metric, [y.key(point[0]) for point, _ in points]),
    )
    return caption, plot


def volume(data: FigureData) -> Drawing:
    if not data.objective.others:
        return None
    usable = (trial for trial in data.trials.values() if trial.status != FAILED)
    points = points_of(usable, data.objective)
    if not points:
        return NO_TRIALS, None
    ranges = [(min(v), max(v)) for v in zip(*(point for point, _ in points), strict=True)]
    scaled = [
        (tuple((v - low) / (high - low or 1) for v, (low, high) in zip(p, ranges, strict=True)), t)
        for p, t in points
    ]
    worst = (_BOUND,) * len(ranges)
    counts = evenly(range(1, len(scaled) + 1), _MOST_ON_FRONT)
    fronts = [[point for point, _ in front_of(scaled[:count])] for count in counts]
    numbers = [int(points[count - 1][1].trial_id) for count in counts]
    volumes = [hypervolume(each, worst) for each in fronts]
    plot = make_plot(
        [scatter(numbers, rounded(volumes), mode="lines", line=_SO_FAR)],
        x=make_count_axis("trial", most=numbers[-1]),
        y=make_axis("hypervolume", range=[0, 1]),
    )
    caption = (
        "The share of the box from the best to the worst value of each objective that lies behind "
        "the front. Where the line has been flat for long, more trials bring little."
    )
    return caption, plot


def epochs(comparison: Comparison) -> Drawing:
    curves = _curves_of(comparison, lambda entrant: entrant.curve)
    axis = make_count_axis("epochs", most=_find_end(curves), rangemode="tozero")
    return _EPOCHS, _draw_sides(comparison, curves, axis)


def times(comparison: Comparison) -> Drawing:
    """As `epochs`, by the time of searching."""
    curves = _curves_of(comparison, lambda entrant: entrant.by_time)
    unit, axis = scale_time(_find_end(curves))
    scaled = [[curve.divide(unit) for curve in of_side] for of_side in curves]
    return _TIMES, _draw_sides(comparison, scaled, axis)


def _curves_of(comparison: Comparison, choose: Callable[[Entrant], Curve]) -> list[list[Curve]]:
    """The curves of each side that have a value."""
    sides = ([choose(entrant) for entrant in side.entrants] for side in comparison.sides)
    return [[curve for curve in of_side if curve.best] for of_side in sides]


def _find_end(curves: Sequence[Sequence[Curve]]) -> float:
    return max((curve.total for of_side in curves for curve in of_side), default=0)


def leaders(comparison: Comparison) -> Drawing:
    """The learning curve of each experiment's best trial."""
    metric = comparison.objective.metric
    traces = []
    values = []
    longest = 0
    for number, results in enumerate(comparison.experiments):
        for trial in results.top(1):
            curve = trial.values(metric)
            values += [value for _, value in curve]
            longest = max(longest, trial.last_epoch)
            style = {"color": COLOURS[number % len(COLOURS)], "dash": DASHES[number % len(DASHES)]}
            traces.append(
                scatter(
                    [epoch for epoch, _ in curve],
                    rounded(value for _, value in curve),
                    mode="lines+markers",
                    line={**style, "width": 2.5},
                    name=f"{escaped(results.name)}, trial {trial.trial_id}",
                )
            )
    plot = make_plot(
        traces,
        x=make_count_axis("epoch", most=longest),
        y=make_value_axis(metric, values),
        showlegend=True,
    )
    return "How the best trial of each experiment learned.", plot


def _draw_sides(comparison: Comparison, curves: Sequence[Sequence[Curve]], axis: Plot) -> Plot:
    """The best so far of each strategy. curves: those of each side."""
    objective = comparison.objective
    sides = zip(comparison.sides, curves, strict=True)
    drawn = [
        trace
        for number, (side, of_side) in enumerate(sides)
        if of_side
        for trace in _draw_side(side, of_side, number)
    ]
    every = [curve for of_side in curves for curve in of_side]
    return make_plot(
        drawn,
        x=axis,
        y=make_axis(objective.metric, range=_range(every, objective)),
        showlegend=True,
        height=420,
    )


def _draw_side(side: Side, curves: Sequence[Curve], number: int) -> Iterator[Plot]:
    """A strategy's mean over its seeds as a line, and its range as a band."""
    x = _steps(curves)
    values = [[value for c in curves if (value := c.at(at)) is not None] for at in x]
    colour = COLOURS[number % len(COLOURS)]
    line = {"shape": "hv", "color": colour, "width": 0}
    if len(curves) > 1:
        hidden = {"mode": "lines", "line": line, "showlegend": False, "hoverinfo": "skip"}
        yield scatter(x, [min(v) for v in values], **hidden)
        high = [max(v) for v in values]
        yield scatter(x, high, fill="tonexty", fillcolor=colour + _PALE, **hidden)
    yield scatter(
        x,
        [sum(v) / len(v) for v in values],
        mode="lines",
        line={**line, "width": 2.5, "dash": DASHES[number % len(DASHES)]},
        name=f"{escaped(side.label)} ({amount_of(len(side.entrants), 'seed')})",
        hovertemplate=f"{escaped(side.label)}: %{{y:.4g}} at %{{x:.4g}}<extra></extra>",
    )


def _range(curves: Sequence[Curve], objective: Objective) -> list[float] | None:
    """What the axis spans where a few values, as the first ones, lie far out; None elsewhere."""
    samples = [(curve, curve.total * i / _SAMPLES) for curve in curves for i in range(_SAMPLES + 1)]
    values = [value for curve, at in samples if (value := curve.at(at)) is not None]
    fence = fence_of(values, objective)
    if fence is None:
        return None
    best = objective.best(values)
    margin = 0.05 * abs(fence - best)
    return [min(fence, best) - margin, max(fence, best) + margin]


def _steps(curves: Sequence[Curve]) -> list[float]:
    """Where any of the curves changes, from where all have a value to where the last one ends."""
    first = max(curve.starts[0] for curve in curves)
    last = max(curve.total for curve in curves)
    return sorted({first, *(at for curve in curves for at in curve.starts if at >= first), last})
