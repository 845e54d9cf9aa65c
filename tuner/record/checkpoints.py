"""Checkpoints as a journal names them: inside the experiment's folder, and what was written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuner.errors import CheckpointError
from tuner.record.digest import sha256_of
from tuner.record.history import CheckpointRecord
from tuner.record.remote import mirror


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that exists and matches its digest: a file or a folder, and its epoch."""

    path: Path
    sha256: str
    epoch: int


def verified(folder: Path, record: CheckpointRecord, trial_id: str) -> Checkpoint:
    """The checkpoint that the journal of `folder` records; its bytes are read once.

    Raises CheckpointError where it is missing, is not what was written, or lies outside.
    """
    what = f"checkpoint of trial {trial_id}, epoch {record.epoch}"
    path = inside(folder, record.path)
    try:
        mirror.bring(path)
    except OSError as error:
        raise CheckpointError(f"{what} cannot be fetched: {error.strerror}") from error
    if not os.path.exists(path):
        raise CheckpointError(f"{what} is missing: {path}")
    found = sha256_of(path)
    if found != record.sha256:
        raise CheckpointError(
            f"{what} is not what was written: {path} has sha256 {found[:12]}..., "
            f"the journal says {record.sha256[:12]}..."
        )
    return Checkpoint(path, found, record.epoch)


def inside(folder: Path, name: str) -> Path:
    """The path that a journal names, relative to `folder`; it must stay inside, links resolved.

    Raises CheckpointError for one that is absolute, has "..", or leads out through a link.
    """
    relative = PurePosixPath(name)
    path = folder / relative
    try:
        root, target = folder.resolve(), path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, NUL, half a surrogate
        raise CheckpointError(f"the journal names an impossible path: {name!r}") from error
    stays = target != root and target.is_relative_to(root)
    if relative.is_absolute() or ".." in relative.parts or not stays:
        raise CheckpointError(f"the journal names a path outside of the experiment: {name!r}")
    return path
