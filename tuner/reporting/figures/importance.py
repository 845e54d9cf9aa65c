"""The figure of how much each hyperparameter matters."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.reporting.figures._figure import BLACK, BLUE, Drawing, figure
from tuner.reporting.ranked_trials import FEWEST, MOST_WEIGHED
from tuner.reporting.report import Report
from tuner.wording import joined


@figure("Importance", section="hyperparameters", order=10)
def draw(report: Report) -> Drawing:
    """A bar for each hyperparameter's share, with the spread of resampling the trials."""
    importances = report.importances
    if not importances:
        return report.ranked.why_nothing(FEWEST), None
    bars = list(reversed(importances))  # the first one drawn is the lowest
    plot = go.Figure(
        go.Bar(
            orientation="h",
            x=[one.share for one in bars],
            y=[f"{one.name}  {one.share:.2f}" for one in bars],
            hovertemplate=[
                f"{one.name}: {one.share:.2f} ({one.low:.2f} to {one.high:.2f})<extra></extra>"
                for one in bars
            ],
            marker_color=BLUE,
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
    first = importances[0]
    overlapping = [one.name for one in importances[1:] if one.high >= first.low]
    sure = (
        f"its spread overlaps with that of {joined(overlapping)}, so it takes more trials to say "
        "which matters most"
        if overlapping
        else "its spread overlaps with no other's"
    )
    caption = (
        f"{first.name} separates the best trials from the others most; {sure}. The lines span nine "
        "in ten resamples of the trials."
    )
    count = len(report.ranked.trials)
    if count > MOST_WEIGHED:
        caption += f" Of {count} trials {MOST_WEIGHED} are weighed, evenly over their ranks."
    return caption, plot
