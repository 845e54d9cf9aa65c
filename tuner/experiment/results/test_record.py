"""What was measured of a trial's best checkpoint on the held-out test split, once and for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.experiment.checkpoints import Checkpoint
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_record
from tuner.experiment.trials import CheckpointRecord


def known_test(results: Results, trial_id: str | None = None) -> dict[str, Any] | None:
    """What `evaluate` has measured of a trial (None: of the best one); None where it has not.

    Runs nothing.
    """
    for trial in results.top(1) if trial_id is None else [results.trial(trial_id)]:
        if record := best_record(trial, results.objective):
            return recorded_test(results.folder, trial.trial_id, record)
    return None


def recorded_test(
    folder: Path, trial_id: str, checkpoint: Checkpoint | CheckpointRecord
) -> dict[str, Any] | None:
    """What was measured of this checkpoint before; None where nothing was.

    folder: the experiment's.
    """
    files, name = ExperimentFolder(folder), _record(trial_id)
    try:
        files.fetch(name)
        known = files.read(name)
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and known.get("checkpoint_sha256") == checkpoint.sha256
    return known if same and set(map(type, known.values())) <= {str, int, float} else None


def record_test(folder: Path, trial_id: str, measured: dict[str, Any]) -> None:
    """Write what `recorded_test` reads; raises UsageError as `ExperimentFolder.check` does."""
    ExperimentFolder(folder).write(_record(trial_id), measured)


def _record(trial_id: str) -> str:
    return f"trials/{trial_id}/test.json"
