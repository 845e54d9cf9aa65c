"""The figure of every trial's learning curve, with the rungs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import optuna
import plotly.graph_objects as go
from optuna import visualization
from optuna.trial import FrozenTrial, TrialState

from tuner.reporting.figures._figure import BLACK, GREY, STATUS_COLOURS, Drawing, figure
from tuner.reporting.ranked_trials import escaped, fence_of, leading
from tuner.reporting.report import Report
from tuner.wording import number

_MOST_CURVES = 100


@figure("Learning curves", section="stopping", order=10)
def draw(report: Report) -> Drawing:
    """The objective by epoch, a line for each trial in the colour of its status."""
    metric = report.results.metric
    reported = {i: t for i, t in report.results.trials.items() if t.values(metric)}
    if not reported:
        return f"Nothing to show: no trial reported {metric}.", None
    best_first = [t.user_attrs["trial_id"] for t in report.ranked.trials]
    ids = leading([*dict.fromkeys([*best_first, *reported])], _MOST_CURVES)
    plot = visualization.plot_intermediate_values(curves := _curves(report.frozen, {*ids}))
    shown = [t for t in curves.get_trials(deepcopy=False) if t.intermediate_values]
    seen: set[str] = set()
    for trace, trial in zip(plot.data, shown, strict=True):
        own = reported[trial.user_attrs["trial_id"]]
        is_best = best_first[:1] == [own.trial_id]
        group = "the best trial" if is_best else own.status
        trace.update(
            name=group,
            legendgroup=group,
            showlegend=group not in seen,
            mode="lines+markers" if is_best or len(own.results) < 3 else "lines",
            marker={"size": 4},
            line={
                "color": BLACK if is_best else STATUS_COLOURS[own.status],
                "width": 3 if is_best else 1,
            },
            opacity=1 if is_best else 0.5,
            hovertemplate=f"trial {own.trial_id}, epoch %{{x}}: %{{y:.4g}}<extra></extra>",
        )
        seen.add(group)
    rungs = report.rungs
    for rung in rungs:
        plot.add_vline(x=rung.epoch, line={"color": GREY, "dash": "dot", "width": 1})
    plot.update_layout(
        xaxis={"title": "epoch"},
        yaxis={"title": escaped(metric)},
        showlegend=True,
        height=440,
    )
    caption = [
        "Trials that learn well pull ahead early. Early stopping would have lost one that crosses "
        "over late."
    ]
    if rungs:
        epochs = ", ".join(str(rung.epoch) for rung in rungs)
        caption.append(f"Dotted lines are the rungs, at epoch {epochs}.")
    if len(ids) < len(reported):
        caption.append(
            f"Of {len(reported)} curves {len(ids)} are drawn: the best ones, and an even selection "
            "of the others."
        )
    values = [value for trial in reported.values() for _, value in trial.values(metric)]
    fence = fence_of(values, report.results.objective)
    if fence is not None:
        _zoom(plot, values, fence, report.results.objective.sign)
        caption.append(
            f"Values beyond {number(fence)} lie outside the picture; zoom out to see them."
        )
    return " ".join(caption), plot


def _curves(frozen: Mapping[str, FrozenTrial], trial_ids: set[str]) -> optuna.Study:
    """Those trials as running ones, since Optuna draws no curve of a failed trial."""
    running = optuna.create_study()
    for trial_id, trial in frozen.items():
        if trial_id in trial_ids:
            shown = copy(trial)
            shown.state, shown.values, shown.datetime_complete = TrialState.RUNNING, None, None
            running.add_trial(shown)
    return running


def _zoom(plot: go.Figure, values: list[float], fence: float, sign: int) -> None:
    """Show the values up to the fence."""
    inside = [value for value in values if sign * value <= sign * fence]
    margin = 0.05 * (max(inside) - min(inside)) or 1.0
    plot.update_yaxes(range=[min(inside) - margin, max(inside) + margin])
