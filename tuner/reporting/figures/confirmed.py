"""The figure of a confirmation: what each leader gives with fresh seeds, beside what it showed."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.reporting.confirmation_text import verdict
from tuner.reporting.figures.figure import BLUE, GREY, ORANGE, Figure, drawn, text
from tuner.results.confirmation import Confirmation

NOT_CONFIRMED = (
    "Nothing to show: the leaders were not retrained. The best of many noisy trials looks better "
    "than it is; `tuner confirm` tells by how much."
)


def confirmation_figure(confirmation: Confirmation | None) -> Figure:
    """Each leader's seeds, mean and interval, and the value that the search showed for it."""
    return drawn("confirmation", "Confirmation", _plot, confirmation)


def _plot(confirmation: Confirmation | None) -> tuple[str, go.Figure | None]:
    if confirmation is None:
        return NOT_CONFIRMED, None
    leaders = [one for one in confirmation.leaders if one.mean]
    names = [f"trial {one.trial_id}" for one in leaders]
    dots = [(n, v) for n, one in zip(names, leaders, strict=True) for v in one.values.values()]
    means = [one.mean for one in leaders if one.mean]
    reach = [mean.high - mean.mean if mean.high is not None else 0.0 for mean in means]
    plot = go.Figure(
        [
            go.Scatter(
                x=[name for name, _ in dots],
                y=[value for _, value in dots],
                mode="markers",
                marker={"color": GREY, "size": 7},
                name="a seed",
            ),
            go.Scatter(
                x=names,
                y=[mean.mean for mean in means],
                error_y={"type": "data", "array": reach, "color": BLUE, "thickness": 2},
                mode="markers",
                marker={"color": BLUE, "size": 11, "symbol": "square"},
                name="mean, with its 95 % interval",
            ),
            go.Scatter(
                x=names,
                y=[one.searched for one in leaders],
                mode="markers",
                marker={"color": ORANGE, "size": 12, "symbol": "diamond"},
                name="what the search showed",
            ),
        ],
        {
            "xaxis": {"type": "category"},
            "yaxis": {"title": text(confirmation.results.metric)},
            "legend": {"orientation": "h", "y": 1.08},
        },
    )
    return " ".join(verdict(confirmation)), plot
