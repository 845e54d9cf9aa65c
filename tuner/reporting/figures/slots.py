"""The figure of what ran when on which slot."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.reporting.figures._figure import STATUS_COLOURS, Drawing, figure, time_axis
from tuner.reporting.report import Report
from tuner.wording import amount_of, duration

_MOST_BARS = 3000


@figure("Timeline of the slots", section="machine", order=10)
def draw(report: Report) -> Drawing:
    """A bar for each run of a trial, on the slot where it ran, in the colour of its status."""
    occupancy, history = report.occupancy, report.results.history
    if not occupancy.stays or occupancy.busy_share is None:
        return "Nothing to show: no trial has run.", None
    began = history.started or occupancy.stays[0].run.started
    unit, unit_s = time_axis(max(stay.run.ended for stay in occupancy.stays) - began)
    stays = occupancy.stays[:_MOST_BARS]
    plot = go.Figure()
    for status, colour in STATUS_COLOURS.items():
        own = [stay for stay in stays if history.trials[stay.trial_id].status == status]
        if own:
            plot.add_bar(
                orientation="h",
                y=[f"slot {stay.slot + 1}" for stay in own],
                base=[(stay.run.started - began) / unit_s for stay in own],
                x=[stay.run.duration_s / unit_s for stay in own],
                marker={"color": colour, "line": {"color": "white", "width": 0.5}},
                name=status,
                customdata=[[stay.trial_id, duration(stay.run.duration_s)] for stay in own],
                hovertemplate="trial %{customdata[0]}, %{customdata[1]}<extra></extra>",
            )
    plot.update_layout(
        barmode="overlay",
        bargap=0.15,
        height=150 + 28 * occupancy.slots,
        xaxis={"title": f"{unit} since the start", "rangemode": "tozero"},
        yaxis={
            "autorange": "reversed",
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [f"slot {n + 1}" for n in range(occupancy.slots)],
        },
        showlegend=True,
    )
    caption = [
        f"White is idle time: of {amount_of(occupancy.slots, 'slot')} x "
        f"{duration(occupancy.wall_s)}, trials ran {occupancy.busy_share:.0%}."
    ]
    if len(stays) < len(occupancy.stays):
        caption.append(f"The first {len(stays)} of {len(occupancy.stays)} runs are drawn.")
    return " ".join(caption), plot
