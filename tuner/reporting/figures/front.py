"""The figures of several objectives: the front, and what it gained trial by trial."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.experiment.events import FAILED
from tuner.experiment.results.front import front_of, hypervolume, points_of
from tuner.reporting.figures.figure import BLACK, BLUE, STATUS_COLOURS, Drawing
from tuner.reporting.ranked_trials import NO_TRIALS, escaped, evenly
from tuner.reporting.report import Report

_MOST_POINTS = 100
_WIDE = 50  # from the least to the greatest value, from which an axis is logarithmic
_BOUND = 1 + 1e-9  # of the box, in which the worst values lie, too


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
    for status, colour in STATUS_COLOURS.items():
        shown = [(point, trial) for point, trial in points if trial.status == status]
        if shown:
            plot.add_scatter(
                x=[x.key(point[1]) for point, _ in shown],
                y=[y.key(point[0]) for point, _ in shown],
                text=[trial.trial_id for _, trial in shown],
                mode="markers",
                marker={"color": colour, "size": 6, "opacity": 0.7},
                name=status,
            )
    best = front_of((p, trial) for p, trial in points if trial.status != FAILED)
    plot.add_scatter(
        x=[x.key(point[1]) for point, _ in best],
        y=[y.key(point[0]) for point, _ in best],
        text=[trial.trial_id for _, trial in best],
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
    """The hypervolume of the front after each trial."""
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
    counts = evenly(range(1, len(scaled) + 1), _MOST_POINTS)
    fronts = [[point for point, _ in front_of(scaled[:count])] for count in counts]
    plot = go.Figure(
        go.Scatter(
            x=[int(points[count - 1][1].trial_id) for count in counts],
            y=[hypervolume(each, worst) for each in fronts],
            mode="lines",
            line={"color": BLUE, "width": 2.5, "shape": "hv"},
        ),
        {"xaxis": {"title": "trial"}, "yaxis": {"title": "hypervolume", "range": [0, 1]}},
    )
    caption = (
        "The share of the box from the best to the worst value of each objective that lies behind "
        "the front. Where the line has been flat for long, more trials bring little."
    )
    return caption, plot
