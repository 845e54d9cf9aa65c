"""Folders that one process makes, and for which the others wait."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def ensure_folder(
    path: Path, make: Callable[[Path], object], *, what: str | None = None
) -> None:
    """Let `make` fill a new folder that becomes `path`, unless that is there already.

    One of all processes that share its parent makes it, and the others wait. It appears only when
    it is complete. what: the folder in words, for those who wait. Raises what `make` raises, and
    OSError.
    """
    if path.is_dir():
        return
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.parent / f".{path.name}.lock")
    try:
        locked = lock.acquire(blocking=False)
    except Timeout:
        text = f"waiting for another process to make {what or path}"
        print(text, file=sys.stderr, flush=True)
        locked = lock.acquire()
    with locked:
        if path.is_dir():
            return
        with create_partial_folder(path.parent) as partial:
            make(partial)
            # mkdtemp's 0700 would shut out the others of a shared folder
            partial.chmod(0o755)
            partial.rename(path)


@contextmanager
def create_partial_folder(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, removed at the end if it is still there."""
    partial = Path(tempfile.mkdtemp(dir=parent, prefix=".partial-"))
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
