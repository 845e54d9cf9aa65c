"""The figures of the best value over a search or several, and of several objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.colors import hex_to_rgb

from tuner.experiment.events import FAILED
from tuner.experiment.results.comparison import Comparison, Curve, Side
from tuner.experiment.results.selection import best_so_far, front_of, hypervolume, points_of
from tuner.experiment.trials import TrialRecord
from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    COLOURS,
    DASHES,
    GREY,
    STATUS_COLOURS,
    Drawing,
    count_axis,
)
from tuner.reporting.report import NO_TRIALS, Report, escaped, evenly, fence_of
from tuner.spec.sections import Objective
from tuner.wording import amount_of

_SO_FAR = {"color": BLUE, "width": 2.5, "shape": "hv"}  # a line of the best so far
_MOST_POINTS = 3000
_MOST_ON_FRONT = 100
_WIDE = 50  # from the least to the greatest value, from which an axis is logarithmic
_BOUND = 1 + 1e-9  # of the box, in which the worst values lie, too
_CAPTION = (
    "Epochs of all trials together: the training that the search took. A line is the mean over the "
    "seeds from where all have a value, and its band their range. A search that has ended keeps "
    "its best."
)
_SAMPLES = 50  # of each curve, evenly over its epochs


def history(report: Report) -> Drawing:
    """The best value after each trial, and each trial's own best value."""
    ranked = report.ranked
    if not ranked.trials:
        return NO_TRIALS, None
    trials = sorted(ranked.trials, key=lambda trial: trial.number)
    drawn = evenly(trials, _MOST_POINTS)
    values = ((trial.number, trial.value) for trial in trials if trial.value is not None)
    steps = best_so_far(values, ranked.objective)
    steps.append((trials[-1].number, steps[-1][1]))
    plot = go.Figure(layout={"yaxis": {"title": ranked.label}})
    plot.update_xaxes(count_axis("trial", most=trials[-1].number))
    numbers, best = [trial.number for trial in drawn], [trial.value for trial in drawn]
    marker = {"color": GREY, "size": 6}
    plot.add_scatter(x=numbers, y=best, mode="markers", marker=marker, name="a trial's best")
    x, y = zip(*steps, strict=True)
    plot.add_scatter(x=x, y=y, mode="lines", line=_SO_FAR, name="best so far")
    later = sum(trial.number > ranked.trials[0].number for trial in trials)
    caption = (
        f"Trials in the order of their ids: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little."
    )
    if len(drawn) < len(trials):
        caption += f" Of {len(trials)} trials {len(drawn)} are drawn, evenly."
    return caption, plot


def front(report: Report) -> Drawing:
    """The first two objectives of each trial by its status, and the front."""
    results = report.results
    objective = results.objective
    if not objective.others:
        return None
    points = points_of(results.trials.values(), objective)
    if not points:
        return NO_TRIALS, None
    y, x, *third = objective.goals
    values = [x.key(point[1]) for point, _ in points]
    scale = "log" if 0 < _WIDE * min(values) < max(values) else "linear"
    plot = go.Figure(layout={"xaxis": {"title": escaped(x.metric), "type": scale}})
    plot.update_layout(yaxis={"title": escaped(y.metric)})

    def add(shown: list[tuple[tuple[float, ...], TrialRecord]], **style: Any) -> None:
        plot.add_scatter(
            x=[x.key(point[1]) for point, _ in shown],
            y=[y.key(point[0]) for point, _ in shown],
            text=[trial.trial_id for _, trial in shown],
            **style,
        )

    for status, colour in STATUS_COLOURS.items():
        if shown := [(point, trial) for point, trial in points if trial.status == status]:
            marker = {"color": colour, "size": 6, "opacity": 0.7}
            add(shown, mode="markers", marker=marker, name=status)
    best = front_of((p, trial) for p, trial in points if trial.status != FAILED)
    add(
        best,
        mode="markers" if third else "lines+markers",
        line={"color": BLACK, "width": 1, "shape": "vh"},
        marker={"color": BLACK, "size": 9, "symbol": "circle-open"},
        name="front",
    )
    caption = (
        f"Each trial at its best epoch; {escaped(y.better)} {escaped(y.metric)} and {x.better} "
        f"{escaped(x.metric)} are better. No trial beats the {len(best)} on the front in both."
    )
    if third:
        caption += f" The third objective, {escaped(third[0].metric)}, is not drawn."
    return caption, plot


def volume(report: Report) -> Drawing:
    results = report.results
    if not results.objective.others:
        return None
    usable = (trial for trial in results.trials.values() if trial.status != FAILED)
    points = points_of(usable, results.objective)
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
    plot = go.Figure(go.Scatter(x=numbers, y=volumes, mode="lines", line=_SO_FAR))
    plot.update_xaxes(count_axis("trial", most=numbers[-1]))
    plot.update_yaxes(title="hypervolume", range=[0, 1])
    caption = (
        "The share of the box from the best to the worst value of each objective that lies behind "
        "the front. Where the line has been flat for long, more trials bring little."
    )
    return caption, plot


def epochs(comparison: Comparison) -> Drawing:
    sides = [side for side in comparison.sides if side.best]
    curves = [entrant.curve for side in sides for entrant in side.entrants]
    plot = go.Figure()
    for number, side in enumerate(sides):
        _add(plot, side, number)
    objective = comparison.objective
    longest = max((curve.total for curve in curves), default=0)
    plot.update_xaxes(count_axis("epochs", most=longest), rangemode="tozero")
    plot.update_yaxes(title=escaped(objective.metric), range=_range(curves, objective))
    plot.update_layout(showlegend=True, height=420)
    return _CAPTION, plot


def _add(plot: go.Figure, side: Side, number: int) -> None:
    """A strategy's mean over its seeds as a line, and its range as a band."""
    curves = [entrant.curve for entrant in side.entrants if entrant.curve.best]
    x = _steps(curves)
    values = [[value for c in curves if (value := c.at(at)) is not None] for at in x]
    colour = COLOURS[number % len(COLOURS)]
    line = {"shape": "hv", "color": colour, "width": 0}
    if len(curves) > 1:
        hidden = {"x": x, "mode": "lines", "line": line, "showlegend": False, "hoverinfo": "skip"}
        plot.add_scatter(y=[min(v) for v in values], **hidden)
        pale = f"rgba{(*hex_to_rgb(colour), 0.15)}"
        plot.add_scatter(y=[max(v) for v in values], fill="tonexty", fillcolor=pale, **hidden)
    plot.add_scatter(
        x=x,
        y=[sum(v) / len(v) for v in values],
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


def _steps(curves: Sequence[Curve]) -> list[int]:
    """Where any of the curves changes, from where all have a value to where the last one ends."""
    first = max(curve.epochs[0] for curve in curves)
    last = max(curve.total for curve in curves)
    return sorted({first, *(at for curve in curves for at in curve.epochs if at >= first), last})
