"""What `evaluate` has measured of a checkpoint, as recorded in the experiment's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.experiment.files import Checkpoint
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_checkpoint
from tuner.experiment.trials import CheckpointRecord, TrialRecord


def read_best_test(results: Results) -> dict[str, Any] | None:
    """What `evaluate` has measured of the best trial, or None."""
    return next((read_trial_test(results, trial) for trial in results.top(1)), None)


def read_trial_test(results: Results, trial: TrialRecord) -> dict[str, Any] | None:
    """What `evaluate` has measured of a trial's best checkpoint, or None."""
    record = find_best_checkpoint(trial, results.objective)
    return record and read_test(results.folder, trial.trial_id, record)


def read_test(
    folder: Path, trial_id: str, checkpoint: Checkpoint | CheckpointRecord
) -> dict[str, Any] | None:
    """The recorded measurement of this checkpoint, or None."""
    files = ExperimentFolder(folder)
    name = _format_record_name(trial_id)
    try:
        files.fetch(name)
        record = files.read(name)
    except (OSError, ValueError):
        return None
    same = (
        isinstance(record, dict)
        and record.get("checkpoint_sha256") == checkpoint.sha256
    )
    plain = {str, int, float, dict, list}
    return record if same and set(map(type, record.values())) <= plain else None


def record_test(folder: Path, trial_id: str, measured: dict[str, Any]) -> None:
    """Write what `read_test` reads; raises UsageError as `ExperimentFolder.check` does."""
    ExperimentFolder(folder).write(_format_record_name(trial_id), measured)


def _format_record_name(trial_id: str) -> str:
    return f"trials/{trial_id}/test.json"
