"""The figure of how many trials each rung stopped."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.reporting.figures._figure import BLUE, SKY, Drawing, figure
from tuner.reporting.report import Report


@figure("Who went on at each rung", section="stopping", order=20, half=True)
def draw(report: Report) -> Drawing:
    """A bar for each rung: the trials that reached it, stopped there or not."""
    rungs = report.rungs
    if not report.stopped or report.spec.epochs is None:
        return report.why_no_stop, None
    if not rungs:
        return "Nothing to show: the scheduler has no rungs.", None
    names = [str(rung.epoch) for rung in rungs]
    went_on = [rung.reached - rung.stopped for rung in rungs]
    stopped = [rung.stopped for rung in rungs]
    plot = go.Figure(
        [
            go.Bar(x=names, y=went_on, name="not stopped there", marker_color=BLUE),
            go.Bar(x=names, y=stopped, name="stopped there", marker_color=SKY),
        ],
        {
            "barmode": "stack",
            "xaxis": {"title": "rung (epoch)", "type": "category"},
            "yaxis": {"title": "trials that reached it"},
        },
    )
    most = max(rungs, key=lambda rung: rung.stopped)
    caption = (
        f"Most trials were stopped at epoch {most.epoch}: {most.stopped} of the {most.reached} "
        "that reached it."
    )
    return caption, plot
