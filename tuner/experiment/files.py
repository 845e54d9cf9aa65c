"""Files of an experiment's folder: only plain files are opened, and documents change atomically.

Checkpoints are as the journal records them: inside the folder, with their SHA-256.

In a folder of someone else's a link could lead a writer to any file, and a pipe could block a
reader.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from uuid import uuid4

from tuner.errors import CheckpointError, StorageError, UsageError, translate_error
from tuner.spec.plain_values import MOST, find_value_fault, parse_json

EXPERIMENT = "experiment.json"
JOURNAL = "journal.jsonl"
CONFIRMED = "confirmed.json"  # the experiments that confirm this one
# The experiments that refit its best trial, as its spec asks
REFITTED = "refitted.json"
WARM_START = "warm_start.json"  # the earlier trials that the searcher learned from
LABELS = "labels.json"  # what its user calls it: tags, and a note
DOCUMENTS = (EXPERIMENT, CONFIRMED, REFITTED, WARM_START, LABELS)

LARGEST = 64 << 20  # bytes of a document
_SMALL = 1 << 20  # bytes that every disk of an experiment has to take
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the file at `path`. Raises OSError, also for what is not a plain file."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return fd


def read_plain(path: Path) -> bytes:
    """The bytes of a document. Raises OSError, also for what is no plain file or too large."""
    with os.fdopen(open_plain(path), "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MiB", str(path))
    return data


def find_path_fault(path: Path, *, below: Path) -> str | None:
    """The first part of `path` below `below` that is no plain file or folder, in words, or None.

    Raises OSError if it cannot look.
    """
    relative = path.relative_to(below)
    for part in (*reversed(relative.parents[:-1]), relative):
        try:
            mode = (below / part).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(mode):
            return f"{below / part} is a symbolic link"
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            return f"{below / part} is no plain file"
    return None


def is_uploadable(path: Path, folder: Path) -> bool:
    """Whether `path` is a plain file, or a link to one in `folder`: a store has no links."""
    if not path.is_symlink():
        return path.is_file()
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def seek_tail(file: BinaryIO, most: int) -> int:
    """Go to the last `most` bytes of a file; returns their position."""
    return file.seek(max(0, file.seek(0, os.SEEK_END) - most))


def read_json(path: Path, *, most: int = MOST) -> Any:
    """The value of a JSON document. Raises OSError, and ValueError for other or too large text."""
    return parse_json(read_plain(path), most=most)


def read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON document holds. Raises as `read_plain`, and UsageError if damaged."""
    with translate_error(UsageError, f"{path} is damaged", of=ValueError):
        value = read_json(path)
    if not isinstance(value, dict):
        raise UsageError(f"{path} is damaged: it must hold one object")
    if fault := find_value_fault(value):
        raise UsageError(f"{path} is damaged: it {fault}")
    return value


def encode(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems sync no folders: their server writes names at once
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(fd)


def sync_tree(path: Path) -> None:
    """Force a file, or a folder and all in it, to the disk. Raises OSError."""
    if not path.is_dir():
        sync(path)
        return
    for root, _, names in os.walk(path, topdown=False):
        for name in names:
            sync(Path(root, name))
        sync(Path(root))


def walk_files(folder: Path, below: str = "") -> Iterator[tuple[str, Path]]:
    """(POSIX path in `folder`, path) of each file in it, or in its folder `below`."""
    for root, _, names in os.walk(folder / below):
        for name in names:
            path = Path(root, name)
            yield path.relative_to(folder).as_posix(), path


def check_disk(folder: Path) -> None:
    """Raise StorageError if the disk is full, read-only or broken, so that it takes no small file.

    The next write raises other errors, as of a folder that was moved.
    """
    probe = folder / f".{uuid4().hex}.partial"
    try:
        with probe.open("xb") as file:
            file.write(bytes(_SMALL))
        sync(probe)
    except OSError as error:
        if error.errno in _OF_DISKS:
            raise StorageError(f"cannot write to {folder}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            probe.unlink()


def create_folder(path: Path, *, below: Path) -> None:
    """Make the folder `path` and its parents below `below`.

    Raises OSError, FileNotFoundError if `below` is missing, as after a move by the user. A link
    between them is not followed.
    """
    if fault := find_path_fault(path, below=below):
        raise OSError(errno.EINVAL, fault, str(path))
    missing = []
    while path != below and not path.is_dir():
        missing.append(path)
        path = path.parent
    path.stat()
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)


def replace_file(
    path: Path, write: Callable[[Path], object], *, lasting: bool = False
) -> None:
    """Let `write` fill a new file that replaces `path` atomically. Raises OSError, and as `write`.

    lasting: sync it, so that a power cut leaves the old or the new file.
    """
    # A name that nobody knows
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        write(partial)
        if lasting:
            sync(partial)
        partial.replace(path)
        if lasting:
            sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def create_file(path: Path, data: bytes) -> None:
    """Create a synced file atomically. Raises OSError, also if it exists."""
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
        sync(partial)
        try:
            os.link(partial, path)  # unlike a rename, never in place of another
        except FileExistsError:
            # A network file system may have lost the answer to this link and tried again
            if not os.path.samefile(partial, path):
                raise
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Raise UsageError unless `path` is a plain file, or nothing yet."""
    try:
        mode = path.lstat().st_mode
    except OSError:  # there is nothing; a later write reports any other fault
        return
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "no plain file"
        raise UsageError(
            f"cannot write {path}: it is {what}; give a new name, or that of a file"
        )


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """`replace_file` for a user's path. Raises UsageError, also for a link, pipe or device."""
    check_target(path)
    with translate_error(UsageError, f"cannot write {path}", of=OSError):
        replace_file(path, write)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that exists and matches its digest: a file or a folder, and its epoch."""

    path: Path
    sha256: str
    epoch: int


def resolve_path(folder: Path, name: str) -> Path:
    """The path `name` in `folder`. Raises CheckpointError if it or a link leads outside."""
    relative = PurePosixPath(name)
    path = folder / relative
    try:
        root = folder.resolve()
        target = path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        # A loop of links, NUL, half a surrogate
        raise CheckpointError(
            f"the journal names an impossible path: {name!r}"
        ) from error
    stays = target != root and target.is_relative_to(root)
    if relative.is_absolute() or ".." in relative.parts or not stays:
        raise CheckpointError(
            f"the journal names a path outside of the experiment: {name!r}"
        )
    return path


def compute_sha256(path: Path) -> str:
    """The digest of a file, or of a folder's sorted names and file digests, in lower-case hex.

    Raises CheckpointError for what is missing, unreadable, a link, or no plain file or folder.
    """
    with translate_error(CheckpointError, f"cannot read {path}", of=OSError):
        if path.is_symlink():
            raise CheckpointError(
                f"{path} is a symbolic link; a checkpoint holds plain files only"
            )
        if path.is_dir():
            return _compute_folder_digest(path)
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path} is neither a plain file nor a folder")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return digest


def _compute_folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    entries = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(entries.items()):
        if path.is_symlink() or not path.is_dir():
            # NUL cannot be part of a name, so no two listings read the same.
            digest.update(
                os.fsencode(name) + b"\0" + compute_sha256(path).encode() + b"\0"
            )
    return digest.hexdigest()
