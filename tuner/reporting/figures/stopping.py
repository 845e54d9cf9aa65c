"""The figures of learning curves and early stopping."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    GREY,
    SKY,
    STATUS_COLOURS,
    Drawing,
    count_axis,
)
from tuner.reporting.report import Report, escaped, fence_of, leading, selection_note
from tuner.wording import number

_MOST_CURVES = 100
_MOST_POINTS = 1000


def curves(report: Report) -> Drawing:
    """The objective by epoch, a line for each trial in the colour of its status."""
    metric = report.results.metric
    reported = {i: t for i, t in report.results.trials.items() if t.values(metric)}
    if not reported:
        return f"Nothing to show: no trial reported {metric}.", None
    best_first = [t.user_attrs["trial_id"] for t in report.ranked.trials]
    ids = leading([*dict.fromkeys([*best_first, *reported])], _MOST_CURVES)
    plot = go.Figure()
    groups: set[str] = set()
    for trial_id in ids:
        trial, is_best = reported[trial_id], best_first[:1] == [trial_id]
        group = "the best trial" if is_best else trial.status
        colour = BLACK if is_best else STATUS_COLOURS[trial.status]
        epochs, values = zip(*trial.values(metric), strict=True)
        plot.add_scatter(
            x=epochs,
            y=values,
            name=group,
            legendgroup=group,
            showlegend=group not in groups,
            mode="lines+markers" if is_best or len(trial.results) < 3 else "lines",
            marker={"size": 4 if len(epochs) > 1 else 7},
            line={"color": colour, "width": 3 if is_best else 1},
            opacity=1 if is_best else 0.7,
            hovertemplate=f"trial {trial_id}, epoch %{{x}}: %{{y:.4g}}<extra></extra>",
        )
        groups.add(group)
    rungs = report.rungs
    for rung in rungs:
        plot.add_vline(x=rung.epoch, line={"color": GREY, "dash": "dot", "width": 1})
    longest = max(trial.last_epoch for trial in reported.values())
    plot.update_xaxes(count_axis("epoch", most=longest))
    plot.update_layout(yaxis={"title": escaped(metric)}, showlegend=True, height=440)
    caption = [
        "Trials that learn well pull ahead early. Early stopping would have lost one that crosses "
        "over late."
    ]
    if rungs:
        at = ", ".join(str(rung.epoch) for rung in rungs)
        caption.append(f"Dotted lines are the rungs, at epoch {at}.")
    caption += selection_note("curves", len(reported), len(ids))
    every = [value for trial in reported.values() for _, value in trial.values(metric)]
    sign = report.results.objective.sign
    fence = fence_of(every, report.results.objective)
    bests = [trial.value for trial in report.ranked.trials if trial.value is not None]
    if fence is not None:
        # One long trial has most of the values: no other lies outside with all of its own
        fence = sign * max(sign * value for value in [fence, *bests])
    inside = [value for value in every if fence is None or sign * value <= sign * fence]
    if fence is not None and len(inside) < len(every):
        margin = 0.05 * (max(inside) - min(inside)) or 1.0
        plot.update_yaxes(range=[min(inside) - margin, max(inside) + margin])
        caption.append(
            f"Values beyond {number(fence)} lie outside the picture; zoom out to see them."
        )
    return " ".join(caption), plot


def rungs(report: Report) -> Drawing:
    """A bar for each rung: the trials that reached it, stopped there or not."""
    counts = report.rungs
    if not report.stopped or report.spec.epochs is None:
        return "Nothing to show: no scheduler stopped a trial.", None
    if not counts:
        return "Nothing to show: the scheduler has no rungs.", None
    names = [str(rung.epoch) for rung in counts]
    went_on = [rung.reached - rung.stopped for rung in counts]
    stopped = [rung.stopped for rung in counts]
    plot = go.Figure(layout={"barmode": "stack"})
    reached = max(rung.reached for rung in counts)
    plot.update_yaxes(count_axis("trials that reached it", most=reached))
    plot.update_xaxes(title="rung (epoch)", type="category")
    plot.add_bar(x=names, y=went_on, name="not stopped there", marker_color=BLUE)
    plot.add_bar(x=names, y=stopped, name="stopped there", marker_color=SKY)
    most = max(counts, key=lambda rung: rung.stopped)
    caption = (
        f"Most trials were stopped at epoch {most.epoch}: {most.stopped} of the {most.reached} "
        "that reached it."
    )
    return caption, plot
