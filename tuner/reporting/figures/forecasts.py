"""The figure of predicted against true ends, where the scheduler predicts them."""

from __future__ import annotations

from collections.abc import Iterator

import plotly.graph_objects as go

from tuner.experiment.events import COMPLETED
from tuner.reporting.figures._figure import BLACK, BLUE, Drawing, Variant, figure
from tuner.reporting.ranked_trials import evenly
from tuner.reporting.report import Report

_TITLE = "Predicted and true ends"
_MOST_POINTS = 1000


def _variants(report: Report) -> Iterator[Variant]:
    """The one figure, of a search whose scheduler predicts."""
    if any(trial.forecasts for trial in report.results.trials.values()):
        yield Variant("forecasts", _TITLE, None)


@figure(_TITLE, section="stopping", order=40, half=True, variants=_variants)
def draw(report: Report, argument: None = None) -> Drawing:
    """A point for each forecast of a trial that ran to its end."""
    metric = report.spec.objective.metric
    points = [
        (trial.trial_id, epoch, told["end"], told["low"], told["high"], trial.values(metric)[-1][1])
        for trial in report.results.trials.values()
        if trial.status == COMPLETED and trial.values(metric)
        for epoch, told in (trial.forecasts or {}).items()
        if {"end", "low", "high"} <= told.keys()
    ]
    if not points:
        return "Nothing to show: no end was predicted of a trial that came to it.", None
    inside = sum(low <= true <= high for _, _, _, low, high, true in points)
    ids, epochs, ends, lows, highs, trues = zip(*evenly(points, _MOST_POINTS), strict=True)
    plot = go.Figure(
        [
            go.Scatter(
                x=ends,
                y=trues,
                error_x={
                    "array": [high - end for high, end in zip(highs, ends, strict=True)],
                    "arrayminus": [end - low for low, end in zip(lows, ends, strict=True)],
                    "thickness": 0.5,
                },
                customdata=list(zip(ids, epochs, strict=True)),
                mode="markers",
                marker={"color": BLUE, "size": 6, "opacity": 0.6},
                hovertemplate="trial %{customdata[0]}, epoch %{customdata[1]}: %{x:.4g} predicted, "
                "%{y:.4g} reached<extra></extra>",
                name="forecast",
            ),
            go.Scatter(
                x=[min(trues), max(trues)],
                y=[min(trues), max(trues)],
                mode="lines",
                line={"color": BLACK, "dash": "dot"},
                name="as predicted",
                hoverinfo="skip",
            ),
        ],
        {"xaxis": {"title": f"predicted {metric}"}, "yaxis": {"title": "true one"}},
    )
    caption = (
        f"{inside} of {len(points)} forecasts ({inside / len(points):.0%}) were right within one "
        "standard deviation, which the bars show; of normal ones 68% are. Only trials that ran to "
        "their end are among them."
    )
    return caption, plot
