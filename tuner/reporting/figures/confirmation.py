"""The figure of a confirmation: each leader's value with fresh seeds, beside the searched one."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.reporting.comparison_text import leaders_verdict
from tuner.reporting.figures._figure import BLUE, GREY, ORANGE, Drawing, figure
from tuner.reporting.ranked_trials import escaped
from tuner.reporting.report import Report

NOT_CONFIRMED = (
    "Nothing to show: the leaders were not retrained. The best of many noisy trials looks better "
    "than it is; `tuner confirm` shows by how much."
)


@figure("Confirmation", section="confirmed", order=10)
def confirmation(report: Report) -> Drawing:
    """Each leader's seeds, mean and interval, and the value that the search showed for it."""
    confirmed = report.confirmation
    if confirmed is None:
        return NOT_CONFIRMED, None
    leaders = [(f"trial {one.trial_id}", one) for one in confirmed.leaders if one.mean]
    names = [name for name, _ in leaders]
    dots = [(name, value) for name, one in leaders for value in one.values.values()]
    means = [one.mean for _, one in leaders if one.mean]
    above = [mean.high - mean.mean if mean.high is not None else 0.0 for mean in means]
    below = [mean.mean - mean.low if mean.low is not None else 0.0 for mean in means]
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
                error_y={
                    "type": "data",
                    "symmetric": False,  # the chosen one's counts in that it was chosen
                    "array": above,
                    "arrayminus": below,
                    "color": BLUE,
                    "thickness": 2,
                },
                mode="markers",
                marker={"color": BLUE, "size": 11, "symbol": "square"},
                name="mean, with its 95 % interval",
            ),
            go.Scatter(
                x=names,
                y=[one.searched for _, one in leaders],
                mode="markers",
                marker={"color": ORANGE, "size": 12, "symbol": "diamond"},
                name="what the search showed",
            ),
        ],
        {
            "xaxis": {"type": "category"},
            "yaxis": {"title": escaped(confirmed.results.metric)},
        },
    )
    return " ".join(leaders_verdict(confirmed)), plot
