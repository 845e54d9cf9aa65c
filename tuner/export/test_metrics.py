"""What a trial's checkpoint came to on the held-out test split: measured once, kept beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.record.checkpoints import Checkpoint
from tuner.record.folder import read_json, write_document
from tuner.record.plain_files import check_folder
from tuner.record.remote import mirror

_RECORD = "test.json"  # in the trial's folder


def recorded(folder: Path, trial_id: str, checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What was measured of this checkpoint of a trial before; None where nothing was.

    folder: the experiment's.
    """
    try:
        mirror.bring(_record(folder, trial_id))
        known = read_json(_record(folder, trial_id))
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and known.get("checkpoint_sha256") == checkpoint.sha256
    return known if same and set(map(type, known.values())) <= {str, int, float} else None


def keep(folder: Path, trial_id: str, measured: dict[str, Any]) -> None:
    """Keep what `recorded` gives from now on; raises UsageError as `check_folder` does."""
    check_folder(folder)
    write_document(_record(folder, trial_id), measured)


def _record(folder: Path, trial_id: str) -> Path:
    return folder / "trials" / trial_id / _RECORD
