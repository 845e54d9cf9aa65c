"""The trials of an experiment, in rows of named values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import Row, select_rows
from tuner.experiment.results.selection import find_best_report
from tuner.experiment.trials import TrialRecord

# Of a trial
_NO_METRICS = {"trial_id", "status", "epochs", "epoch", "time", "error", "config"}
# Of a row whose metrics do not count
_UNCOUNTED = ("error", "beyond_limits", "before_epoch")


def select_trial_rows(
    rows: Sequence[Row],
    *,
    where: str | None = None,
    sort: str | None = None,
    reverse: bool = False,
) -> list[int]:
    """`select_rows` for trials: of a metric, values that are never the best come last."""
    order = select_rows(rows, where=where, sort=sort, reverse=reverse)
    is_metric = any(
        sort in row.keys() - row["config"].keys() - _NO_METRICS for row in rows
    )
    if not is_metric:
        return order
    return sorted(order, key=lambda n: any(rows[n].get(name) for name in _UNCOUNTED))


def build_trial_rows(results: Results) -> list[dict[str, Any]]:
    return [build_trial_row(results, trial) for trial in results.trials.values()]


def build_trial_row(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """A trial's id, status, epochs, best epoch, time (seconds), error and config.

    `beyond_limits`: no report keeps the limits. `before_epoch`: that one must be of this epoch.

    Metrics of the best epoch and hyperparameters have their names, unless these are taken.
    """
    objective = results.objective
    best = find_best_report(trial, objective)
    return {
        **trial.config,
        **(best.metrics if best else {}),
        "trial_id": trial.trial_id,
        "status": trial.status,
        "epochs": trial.last_epoch,
        "epoch": best and best.epoch,
        "time": trial.duration_s,
        "error": trial.error.kind if trial.error else None,
        "config": trial.config,
        **({"beyond_limits": True} if trial.is_beyond(objective) else {}),
        **({"before_epoch": objective.from_epoch} if trial.is_early(objective) else {}),
    }


def describe_trial(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """What `trials --trial --json` shows: its row, what its failure says, and its reports."""
    message = trial.error.message if trial.error else None
    reports = [{"epoch": report.epoch, **report.metrics} for report in trial.results]
    return {**build_trial_row(results, trial), "message": message, "reports": reports}
