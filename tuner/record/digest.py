"""The SHA-256 of a checkpoint, be it one file or a folder of files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tuner.errors import CheckpointError


def sha256_of(path: Path) -> str:
    """The digest of a file's bytes, or of a folder's sorted relative names and file digests.

    Returns 64 lower-case hexadecimal digits. Files are streamed, so memory stays flat. Empty
    folders inside a folder do not count. Raises CheckpointError for what is missing, unreadable,
    or neither a plain file nor a folder: a symbolic link could lead anywhere.
    """
    try:
        if path.is_symlink():
            raise CheckpointError(f"{path} is a symbolic link; a checkpoint holds plain files only")
        if path.is_dir():
            return _folder_digest(path)
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path} is neither a plain file nor a folder")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    entries = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(entries.items()):
        if path.is_symlink() or not path.is_dir():
            # NUL cannot be part of a name, so no two listings read the same.
            digest.update(os.fsencode(name) + b"\0" + sha256_of(path).encode() + b"\0")
    return digest.hexdigest()
