"""The best of an experiment, the confirmed leader or else the best trial, and its test results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.experiment.files import Checkpoint
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.confirmation import Confirmation, Leader, confirmation_of
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_record
from tuner.experiment.trials import CheckpointRecord


@dataclass(frozen=True, slots=True)
class BestModel:
    """The model to hand over. trial_id: None for the best trial. origin: as in `best --json`."""

    results: Results
    trial_id: str | None
    origin: Mapping[str, Any]


def best_model(results: Results, trial_id: str | None = None) -> BestModel:
    """What is exported and evaluated: `trial_id`, else the confirmed leader, else the best."""
    confirmation = confirmation_of(results) if trial_id is None else None
    if confirmation is None:
        return BestModel(results, trial_id, {"shown": "searched"})
    best = _entry(results, confirmation, confirmation.chosen)
    origin = {name: best[name] for name in ("trial_id", "shown", "confirmed")}
    return BestModel(confirmation.results, confirmation.trial.trial_id, origin)


def best_json(
    results: Results, *, top: int = 1, metric: str | None = None, mode: str | None = None
) -> list[dict[str, Any]]:
    """What `best --json` shows: confirmed leaders, then searched trials.

    By another metric or mode nothing is confirmed.
    """
    results.get_best_trial(metric, mode)  # raises if there is none
    objective = (metric or results.metric, mode or results.mode)
    confirmation = confirmation_of(results) if objective == (results.metric, results.mode) else None
    confirmed = []
    if confirmation:
        leaders = [leader for leader in confirmation.leaders if leader.mean]
        confirmed = [_entry(results, confirmation, leader) for leader in leaders[:top]]
        if confirmation.results is results:
            return confirmed
    ids = {entry["trial_id"] for entry in confirmed}
    trials = [trial for trial in results.top(top, metric, mode) if trial.trial_id not in ids]
    searched = trials[: top - len(confirmed)]
    return [*confirmed, *(results.best_json(t, metric=metric, mode=mode) for t in searched)]


def show_json(results: Results) -> dict[str, Any]:
    """What `show --json` shows: `Results.show`, and `confirmed` after a confirmation: {trial_id,
    experiment, mean, standard_error, seeds, searched}.
    """
    confirmation = confirmation_of(results)
    if confirmation is None:
        return results.show()
    entry = _entry(results, confirmation, confirmation.chosen)
    confirmed = {**entry["confirmed"], "trial_id": entry["trial_id"]}
    del confirmed["seed"]  # of the model that is handed over
    return {**results.show(), "confirmed": confirmed}


def _entry(results: Results, confirmation: Confirmation, leader: Leader) -> dict[str, Any]:
    """A leader as `best --json` shows it; a confirmation shows the ids of its own trials."""
    entry = confirmation.best_json(leader)
    if confirmation.results is results:
        return {**entry, "trial_id": entry["confirmed"]["trial_id"]}
    return entry


def measured_test(results: Results, trial_id: str | None = None) -> dict[str, Any] | None:
    """What `evaluate` has measured of a trial (None: the best one), or None."""
    for trial in results.top(1) if trial_id is None else [results.trial(trial_id)]:
        if record := best_record(trial, results.objective):
            return recorded_test(results.folder, trial.trial_id, record)
    return None


def recorded_test(
    folder: Path, trial_id: str, checkpoint: Checkpoint | CheckpointRecord
) -> dict[str, Any] | None:
    """The recorded measurement of this checkpoint, or None."""
    files, name = ExperimentFolder(folder), _record(trial_id)
    try:
        files.fetch(name)
        record = files.read(name)
    except (OSError, ValueError):
        return None
    same = isinstance(record, dict) and record.get("checkpoint_sha256") == checkpoint.sha256
    plain = {str, int, float, dict, list}
    return record if same and set(map(type, record.values())) <= plain else None


def record_test(folder: Path, trial_id: str, measured: dict[str, Any]) -> None:
    """Write what `recorded_test` reads; raises UsageError as `ExperimentFolder.check` does."""
    ExperimentFolder(folder).write(_record(trial_id), measured)


def _record(trial_id: str) -> str:
    return f"trials/{trial_id}/test.json"
