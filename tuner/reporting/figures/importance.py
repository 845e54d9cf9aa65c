"""The figure of how much each hyperparameter matters."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from tuner.reporting.figures._figure import BLACK, BLUE, GREY, Drawing, figure
from tuner.reporting.ranked_trials import FEWEST, MOST_WEIGHED, Importance
from tuner.reporting.report import Report
from tuner.wording import joined

CANNOT_BE_TOLD = "cannot be told"


@figure("Importance", section="hyperparameters", order=10)
def draw(report: Report) -> Drawing:
    """A bar for each hyperparameter's share, with the spread of resampling the trials.

    Grey, and without a figure, where that spread says that the share cannot be told.
    """
    importances = report.importances
    if not importances:
        return report.ranked.why_nothing(FEWEST), None
    bars = list(reversed(importances))  # the first one drawn is the lowest
    plot = go.Figure(
        go.Bar(
            orientation="h",
            x=[one.share for one in bars],
            y=[f"{one.name}  {_share(one)}" for one in bars],
            hovertemplate=[
                f"{one.name}: {one.share:.2f} ({one.low:.2f} to {one.high:.2f})<extra></extra>"
                for one in bars
            ],
            marker_color=[BLUE if one.told_apart else GREY for one in bars],
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [max(0.0, one.high - one.share) for one in bars],
                "arrayminus": [max(0.0, one.share - one.low) for one in bars],
                "color": BLACK,
            },
        ),
        {
            "height": 120 + 40 * len(bars),
            "xaxis": {"title": "share of all importance", "range": [0, 1]},
        },
    )
    caption = f"{_verdict(importances)} The lines span nine in ten resamples of the trials."
    count = len(report.ranked.trials)
    if count > MOST_WEIGHED:
        caption += f" Of {count} trials {MOST_WEIGHED} are weighed, evenly over their ranks."
    return caption, plot


def _share(one: Importance) -> str:
    return f"{one.share:.2f}" if one.told_apart else CANNOT_BE_TOLD


def _verdict(importances: Sequence[Importance]) -> str:
    """Which one matters most, or between which ones that is open."""
    unclear = [one.name for one in importances if not one.told_apart]
    if unclear:
        return (
            f"Which of {joined(unclear)} matters most {CANNOT_BE_TOLD}: their spreads overlap, and "
            "by chance alone one has much of all importance. It takes more trials."
        )
    return (
        f"{importances[0].name} separates the best trials from the others most; its spread "
        "overlaps with no other's."
    )
