"""Figures of how the search went: the best so far, and every trial's learning curve."""

from __future__ import annotations

from collections.abc import Sequence

import optuna
import plotly.graph_objects as go
from optuna import visualization
from optuna.trial import TrialState

from tuner.record.history import TrialRecord
from tuner.reporting.comparable import Comparable, fence_of
from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    GREY,
    STATUS_COLOURS,
    Figure,
    drawn,
    leading,
    text,
)
from tuner.reporting.figures.hyperparameters import NO_TRIALS
from tuner.results.results import Results
from tuner.wording import number

_MOST_CURVES = 100


def progress_figures(
    results: Results, study: optuna.Study, compared: Comparable, rungs: Sequence[int]
) -> list[Figure]:
    """The best so far by trial, and the learning curves of `study` with the rungs' epochs."""
    return [
        drawn("history", "Best so far", _history, compared),
        drawn("curves", "Learning curves", _curves, results, study, compared, rungs),
    ]


def _history(compared: Comparable) -> tuple[str, go.Figure | None]:
    if not compared.trials:
        return NO_TRIALS, None
    plot = visualization.plot_optimization_history(
        compared.study(), target_name=text(compared.metric)
    )
    plot.data[0].update(marker={"color": GREY, "size": 5, "opacity": 0.7}, name="a trial's best")
    if len(plot.data) > 1:
        plot.data[1].update(line={"color": BLUE, "width": 2.5, "shape": "hv"}, name="best so far")
    plot.update_layout(legend={"orientation": "h", "y": 1.08}, xaxis_title="trial")
    numbers = sorted(trial.number for trial in compared.trials)
    later = len(numbers) - 1 - numbers.index(compared.trials[0].number)
    return (
        f"Trials in the order of their ids: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little.",
        plot,
    )


def _curves(
    results: Results, study: optuna.Study, compared: Comparable, rungs: Sequence[int]
) -> tuple[str, go.Figure | None]:
    metric = results.metric
    reported = {i: t for i, t in results.trials.items() if t.values(metric)}
    if not reported:
        return f"Nothing to show: no trial reported {metric}.", None
    best_first = [t.user_attrs["trial_id"] for t in compared.trials]
    kept = leading([*best_first, *(i for i in reported if i not in set(best_first))], _MOST_CURVES)
    curves = _curves_of(study, set(kept))
    plot = visualization.plot_intermediate_values(curves)
    shown = [t for t in curves.get_trials(deepcopy=False) if t.intermediate_values]
    best = best_first[0] if best_first else None
    seen: set[str] = set()
    for trace, trial in zip(plot.data, shown, strict=True):
        own = reported[trial.user_attrs["trial_id"]]
        group = "the best trial" if own.trial_id == best else own.status
        trace.update(
            name=group,
            legendgroup=group,
            showlegend=group not in seen,
            mode="lines+markers" if len(own.results) < 3 or group == "the best trial" else "lines",
            marker={"size": 4},
            line={
                "color": BLACK if own.trial_id == best else STATUS_COLOURS[own.status],
                "width": 3 if own.trial_id == best else 1,
            },
            opacity=1 if own.trial_id == best else 0.5,
            hovertemplate=f"trial {own.trial_id}, epoch %{{x}}: %{{y:.4g}}<extra></extra>",
        )
        seen.add(group)
    for rung in rungs:
        plot.add_vline(x=rung, line={"color": GREY, "dash": "dot", "width": 1})
    plot.update_layout(
        xaxis={"title": "epoch"},
        yaxis={"title": text(metric)},
        legend={"orientation": "h", "y": 1.08},
        showlegend=True,
        height=440,
    )
    said = [
        "Trials that learn well leave the others early; one that crosses over late would have "
        "been lost to early stopping."
    ]
    if rungs:
        said.append(f"Dotted lines are the rungs, at epoch {_joined(rungs)}.")
    if len(kept) < len(reported):
        said.append(f"Of {len(reported)} curves {len(kept)} are drawn: the best, others evenly.")
    said += _zoomed(plot, list(reported.values()), metric, results.mode)
    return " ".join(said), plot


def _curves_of(study: optuna.Study, trial_ids: set[str]) -> optuna.Study:
    """Those trials as running ones, since Optuna draws no curve of a failed trial."""
    found = optuna.create_study()
    for trial in study.get_trials(deepcopy=True):
        if trial.user_attrs["trial_id"] in trial_ids:
            trial.state, trial.values, trial.datetime_complete = TrialState.RUNNING, None, None
            found.add_trial(trial)
    return found


def _zoomed(plot: go.Figure, trials: Sequence[TrialRecord], metric: str, mode: str) -> list[str]:
    """Show the values without those far out, if there are some; what to say of that."""
    values = [value for trial in trials for _, value in trial.values(metric)]
    fence = fence_of(values, mode=mode)
    if fence is None:
        return []
    inside = [value for value in values if (value <= fence if mode == "min" else value >= fence)]
    margin = 0.05 * (max(inside) - min(inside)) or 1.0
    plot.update_yaxes(range=[min(inside) - margin, max(inside) + margin])
    return [
        f"Values beyond {number(float(fence))} lie outside of the picture; zoom out to see them."
    ]


def _joined(epochs: Sequence[int]) -> str:
    return ", ".join(map(str, epochs))
