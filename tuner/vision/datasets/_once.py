"""A folder that is made once, however many processes want it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def folder_made_once(path: Path, make: Callable[[Path], object]) -> None:
    """Let `make` fill a new folder that becomes `path`, unless that is there already.

    Of all processes that share its parent one makes it, and the others wait. It appears only when
    it is complete. Raises what `make` does, and OSError.
    """
    if path.is_dir():
        return
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / f".{path.name}.lock"):
        if path.is_dir():
            return
        with partial_folder(path.parent) as partial:
            make(partial)
            partial.chmod(0o755)  # mkdtemp's 0700 would shut out the others of a shared folder
            partial.rename(path)


@contextmanager
def partial_folder(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`; what is left of it at the end is removed."""
    partial = Path(tempfile.mkdtemp(dir=parent, prefix=".partial-"))
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
