"""Checkpoints as a journal records them: inside the experiment's folder, with their SHA-256."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuner.errors import CheckpointError, translate_error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that exists and matches its digest: a file or a folder, and its epoch."""

    path: Path
    sha256: str
    epoch: int


def inside(folder: Path, name: str) -> Path:
    """The path `name` in `folder`. Raises CheckpointError if it or a link leads outside."""
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


def sha256_of(path: Path) -> str:
    """The digest of a file, or of a folder's sorted names and file digests, in lower-case hex.

    Raises CheckpointError for what is missing, unreadable, a link, or no plain file or folder.
    """
    with translate_error(CheckpointError, f"cannot read {path}", of=OSError):
        if path.is_symlink():
            raise CheckpointError(f"{path} is a symbolic link; a checkpoint holds plain files only")
        if path.is_dir():
            return _folder_digest(path)
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path} is neither a plain file nor a folder")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return digest


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    entries = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(entries.items()):
        if path.is_symlink() or not path.is_dir():
            # NUL cannot be part of a name, so no two listings read the same.
            digest.update(os.fsencode(name) + b"\0" + sha256_of(path).encode() + b"\0")
    return digest.hexdigest()
