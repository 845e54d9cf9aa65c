"""The figures of the best value over a search or several, and of several objectives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from tuner.experiment.events import FAILED
from tuner.experiment.results.comparison import Comparison, Curve, Entrant, Side
from tuner.experiment.results.selection import (
    compute_points,
    find_front,
    find_improvements,
    hypervolume,
)
from tuner.experiment.trials import TrialRecord
from tuner.reporting.figures.data import (
    NO_TRIALS,
    FigureData,
    find_fence,
    select_evenly,
)
from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    COLOURS,
    DASHES,
    GREY,
    STATUS_COLOURS,
    Drawing,
    Plot,
    build_count_axis,
    build_plot,
    build_plot_axis,
    build_scatter,
    build_value_axis,
    escape_text,
    round_values,
    scale_time,
)
from tuner.spec.sections import Objective
from tuner.wording import format_amount

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


def draw_history(data: FigureData, by: By = "trial") -> Drawing:
    """The best value so far, and each trial's own, by trial, by epochs of all, or by time."""
    if not data.ranked:
        return NO_TRIALS, None
    places, last = _place_trials(data, by)
    unit, axis = _build_history_axis(by, last)
    at = {trial_id: place / unit for trial_id, place in places.items()}
    trials = sorted(data.ranked, key=lambda trial: (at[trial.trial_id], trial.number))
    shown = select_evenly(trials, _MOST_POINTS)
    values = [trial.value for trial in shown]
    steps = find_improvements(
        ((at[t.trial_id], t.value) for t in trials), data.objective
    )
    steps.append((last / unit, steps[-1][1]))
    x, y = zip(*steps, strict=True)
    plot = build_plot(
        [
            build_scatter(
                [at[trial.trial_id] for trial in shown],
                round_values(values),
                customdata=[trial.trial_id for trial in shown],
                mode="markers",
                marker={"color": GREY, "size": 6},
                name="a trial's best",
                hovertemplate="trial %{customdata}: %{y:.4g}<extra></extra>",
            ),
            build_scatter(
                x, round_values(y), mode="lines", line=_SO_FAR, name="best so far"
            ),
        ],
        x=axis,
        y=build_value_axis(data.objective.metric, values),
    )
    later = sum(at[trial.trial_id] > at[data.ranked[0].trial_id] for trial in trials)
    caption = (
        f"{_ORDERS[by]}: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little."
    )
    if len(shown) < len(trials):
        caption += f" Of {len(trials)} trials {len(shown)} are drawn, evenly."
    return caption, plot


def _build_history_axis(by: By, last: float) -> tuple[float, Plot]:
    """What the places of trials are divided by, and the axis."""
    match by:
        case "trial":
            return 1, build_count_axis("trial", most=last)
        case "epochs":
            return 1, build_count_axis(
                "epochs of all trials", most=last, rangemode="tozero"
            )
        case "time":
            return scale_time(last)


def _place_trials(data: FigureData, by: By) -> tuple[dict[str, float], float]:
    """Where each ranked trial stands, by its number, epochs or seconds, and where the axis ends."""
    if by == "trial":
        return {t.trial_id: t.number for t in data.ranked}, max(
            t.number for t in data.ranked
        )
    times = sorted(
        report.time for trial in data.trials.values() for report in trial.results
    )
    bests = {
        trial.trial_id: _find_best_time(data.trials[trial.trial_id])
        for trial in data.ranked
    }
    if by == "epochs":
        return {i: bisect_right(times, time) for i, time in bests.items()}, len(times)
    *seconds, last = data.results.history.find_searched_s([*bests.values(), times[-1]])
    return dict(zip(bests, seconds, strict=True)), last


def _find_best_time(trial: TrialRecord) -> float:
    """When the trial reported its best epoch."""
    best = trial.best and trial.find_report(trial.best.epoch)
    return best.time if best else trial.started


def draw_front(data: FigureData) -> Drawing:
    """The first two objectives of each trial by its status, and the front."""
    objective = data.objective
    if not objective.others:
        return None
    points = compute_points(data.trials.values(), objective)
    if not points:
        return NO_TRIALS, None
    y, x, *third = objective.goals

    def show(some: list[tuple[tuple[float, ...], TrialRecord]], **style: Any) -> Plot:
        return build_scatter(
            round_values(x.compute_loss(point[1]) for point, _ in some),
            round_values(y.compute_loss(point[0]) for point, _ in some),
            customdata=[trial.trial_id for _, trial in some],
            hovertemplate="trial %{customdata}: %{y:.4g}, %{x:.4g}<extra></extra>",
            **style,
        )

    traces = []
    for status, colour in STATUS_COLOURS.items():
        if of_status := [
            (point, trial) for point, trial in points if trial.status == status
        ]:
            marker = {"color": colour, "size": 6, "opacity": 0.7}
            traces.append(show(of_status, mode="markers", marker=marker, name=status))
    best = find_front((p, trial) for p, trial in points if trial.status != FAILED)
    line = show(
        best,
        mode="markers" if third else "lines+markers",
        line={"color": BLACK, "width": 1, "shape": "vh"},
        marker={"color": BLACK, "size": 9, "symbol": "circle-open"},
        name="front",
    )
    caption = (
        f"Each trial at its best epoch, with what it is worth by {y.metric}; {y.better} {y.metric} "
        f"and {x.better} {x.metric} are better. No trial beats the {len(best)} on the front in "
        "both."
    )
    if third:
        caption += f" The third objective, {third[0].metric}, is not drawn."
    plot = build_plot(
        [*traces, line],
        x=build_value_axis(x.metric, [x.compute_loss(point[1]) for point, _ in points]),
        y=build_value_axis(y.metric, [y.compute_loss(point[0]) for point, _ in points]),
    )
    return caption, plot


def draw_hypervolume(data: FigureData) -> Drawing:
    if not data.objective.others:
        return None
    usable = (trial for trial in data.trials.values() if trial.status != FAILED)
    points = compute_points(usable, data.objective)
    if not points:
        return NO_TRIALS, None
    ranges = [
        (min(v), max(v)) for v in zip(*(point for point, _ in points), strict=True)
    ]
    scaled = [
        (
            tuple(
                (v - low) / (high - low or 1)
                for v, (low, high) in zip(p, ranges, strict=True)
            ),
            t,
        )
        for p, t in points
    ]
    worst = (_BOUND,) * len(ranges)
    counts = select_evenly(range(1, len(scaled) + 1), _MOST_ON_FRONT)
    fronts = [[point for point, _ in find_front(scaled[:count])] for count in counts]
    numbers = [int(points[count - 1][1].trial_id) for count in counts]
    volumes = [hypervolume(each, worst) for each in fronts]
    plot = build_plot(
        [build_scatter(numbers, round_values(volumes), mode="lines", line=_SO_FAR)],
        x=build_count_axis("trial", most=numbers[-1]),
        y=build_plot_axis("hypervolume", range=[0, 1]),
    )
    caption = (
        "The share of the box from the best to the worst value of each objective that lies behind "
        "the front. Where the line has been flat for long, more trials bring little."
    )
    return caption, plot


def draw_best_by_epochs(comparison: Comparison) -> Drawing:
    curves = _collect_curves(comparison, lambda entrant: entrant.curve)
    axis = build_count_axis("epochs", most=_find_end(curves), rangemode="tozero")
    return _EPOCHS, _draw_sides(comparison, curves, axis)


def draw_best_by_time(comparison: Comparison) -> Drawing:
    """As `epochs`, by the time of searching."""
    curves = _collect_curves(comparison, lambda entrant: entrant.by_time)
    unit, axis = scale_time(_find_end(curves))
    scaled = [[curve.divide(unit) for curve in of_side] for of_side in curves]
    return _TIMES, _draw_sides(comparison, scaled, axis)


def _collect_curves(
    comparison: Comparison, choose: Callable[[Entrant], Curve]
) -> list[list[Curve]]:
    """The curves of each side that have a value."""
    sides = (
        [choose(entrant) for entrant in side.entrants] for side in comparison.sides
    )
    return [[curve for curve in of_side if curve.best] for of_side in sides]


def _find_end(curves: Sequence[Sequence[Curve]]) -> float:
    return max((curve.total for of_side in curves for curve in of_side), default=0)


def draw_leaders(comparison: Comparison) -> Drawing:
    """The learning curve of each experiment's best trial."""
    metric = comparison.objective.metric
    traces = []
    values = []
    longest = 0
    for number, results in enumerate(comparison.experiments):
        for trial in results.top(1):
            curve = trial.list_values(metric)
            values += [value for _, value in curve]
            longest = max(longest, trial.last_epoch)
            style = {
                "color": COLOURS[number % len(COLOURS)],
                "dash": DASHES[number % len(DASHES)],
            }
            traces.append(
                build_scatter(
                    [epoch for epoch, _ in curve],
                    round_values(value for _, value in curve),
                    mode="lines+markers",
                    line={**style, "width": 2.5},
                    name=f"{escape_text(results.name)}, trial {trial.trial_id}",
                )
            )
    plot = build_plot(
        traces,
        x=build_count_axis("epoch", most=longest),
        y=build_value_axis(metric, values),
        showlegend=True,
    )
    return "How the best trial of each experiment learned.", plot


def _draw_sides(
    comparison: Comparison, curves: Sequence[Sequence[Curve]], axis: Plot
) -> Plot:
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
    return build_plot(
        drawn,
        x=axis,
        y=build_plot_axis(objective.metric, range=_compute_range(every, objective)),
        showlegend=True,
        height=420,
    )


def _draw_side(side: Side, curves: Sequence[Curve], number: int) -> Iterator[Plot]:
    """A strategy's mean over its seeds as a line, and its range as a band."""
    x = _list_steps(curves)
    values = [
        [value for c in curves if (value := c.find_best(at)) is not None] for at in x
    ]
    colour = COLOURS[number % len(COLOURS)]
    line = {"shape": "hv", "color": colour, "width": 0}
    if len(curves) > 1:
        hidden = {
            "mode": "lines",
            "line": line,
            "showlegend": False,
            "hoverinfo": "skip",
        }
        yield build_scatter(x, [min(v) for v in values], **hidden)
        high = [max(v) for v in values]
        yield build_scatter(x, high, fill="tonexty", fillcolor=colour + _PALE, **hidden)
    yield build_scatter(
        x,
        [sum(v) / len(v) for v in values],
        mode="lines",
        line={**line, "width": 2.5, "dash": DASHES[number % len(DASHES)]},
        name=f"{escape_text(side.label)} ({format_amount(len(side.entrants), 'seed')})",
        hovertemplate=f"{escape_text(side.label)}: %{{y:.4g}} at %{{x:.4g}}<extra></extra>",
    )


def _compute_range(curves: Sequence[Curve], objective: Objective) -> list[float] | None:
    """What the axis spans where a few values, as the first ones, lie far out; None elsewhere."""
    samples = [
        (curve, curve.total * i / _SAMPLES)
        for curve in curves
        for i in range(_SAMPLES + 1)
    ]
    values = [
        value for curve, at in samples if (value := curve.find_best(at)) is not None
    ]
    fence = find_fence(values, objective)
    if fence is None:
        return None
    best = objective.choose_best(values)
    margin = 0.05 * abs(fence - best)
    return [min(fence, best) - margin, max(fence, best) + margin]


def _list_steps(curves: Sequence[Curve]) -> list[float]:
    """Where any of the curves changes, from where all have a value to where the last one ends."""
    first = max(curve.starts[0] for curve in curves)
    last = max(curve.total for curve in curves)
    return sorted(
        {first, *(at for curve in curves for at in curve.starts if at >= first), last}
    )
