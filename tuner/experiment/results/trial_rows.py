"""The trials of an experiment as rows, each in plain values: what `tuner trials` shows."""

from __future__ import annotations

from typing import Any

from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_epoch
from tuner.experiment.trials import TrialRecord


def trial_rows(results: Results) -> list[dict[str, Any]]:
    """A row for each trial, in order of the ids.

    trial_id, status, epochs, epoch (the best one), time (seconds that it ran), error (the kind of
    failure), config, and under their own names, unless these are taken, the metrics of the best
    epoch and the hyperparameters.
    """
    return [trial_row(results, trial) for trial in results.trials.values()]


def trial_row(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """The row of one trial."""
    epoch = best_epoch(trial.values(results.metric), results.objective)
    report = None if epoch is None else trial.report_at(epoch)
    return {
        **trial.config,
        **(report.metrics if report else {}),
        "trial_id": trial.trial_id,
        "status": trial.status,
        "epochs": trial.last_epoch,
        "epoch": epoch,
        "time": trial.duration_s,
        "error": trial.error.kind if trial.error else None,
        "config": trial.config,
    }


def trial_json(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """What `trials --trial --json` shows: its row, what its failure says, and its reports."""
    message = trial.error.message if trial.error else None
    return {**trial_row(results, trial), "message": message, "reports": curve(trial)}


def curve(trial: TrialRecord) -> list[dict[str, Any]]:
    """What a trial reported: a row for each epoch."""
    return [{"epoch": report.epoch, **report.metrics} for report in trial.results]
