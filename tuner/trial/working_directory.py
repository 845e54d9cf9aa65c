"""Where a trial works: in a folder of its own, kept with the trial.

What one trial writes by a relative path another cannot overwrite. What lies where the search was
started has to be named from there; whoever looks for it here by a relative path is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tuner.errors import StorageError, translate_error
from tuner.experiment.folder import ExperimentFolder
from tuner.places import START_DIR, TRIAL_DIR, shown

STAYS = "stays_in_start_dir"  # the attribute of a trainable that is not to work in the folder

_READERS = ("open", "os.listdir", "os.scandir")  # the audit events of a path that is read
_look: Callable[[str, Any], object] | None = None  # at the paths that this process's trial reads


class WorkingDirectory:
    """The working directory of this process, and the folder of the trial that it is in."""

    def __init__(self, experiment: Path) -> None:
        self._experiment = ExperimentFolder(experiment)
        self._folder: Path | None = None
        self._start = Path()

    def enter(self, folder: Path, *, stays: bool = False) -> None:
        """Begin to work in `folder`, which is made; or only name it, for a trial that `stays`.

        Raises StorageError where it cannot be made.
        """
        global _look
        self._start, self._folder = Path.cwd(), folder
        os.environ |= {START_DIR: str(self._start), TRIAL_DIR: str(folder)}
        if stays:
            return
        with translate_error(StorageError, f"cannot write {shown(folder)}", of=OSError):
            self._experiment.make_folder(folder)
            os.chdir(folder)
        _look = MissedPaths(self._start)
        _audit_reads()

    def leave(self) -> None:
        """Go back to where the search was started; a folder that nothing was written to goes."""
        global _look
        if self._folder is None:
            return
        _look = None
        with suppress(FileNotFoundError):  # removed meanwhile
            os.chdir(self._start)
        with suppress(OSError):  # not empty, or of another rank that has removed it
            self._folder.rmdir()
        for name in (START_DIR, TRIAL_DIR):
            os.environ.pop(name, None)
        self._folder = None


class MissedPaths:
    """Warns, once each, of relative paths that are read, are not here, and lie in `start`."""

    def __init__(self, start: Path) -> None:
        self._start = start
        self._known: set[str] = set()

    def __call__(self, path: str, flags: Any) -> None:
        writes = isinstance(flags, int) and flags & os.O_CREAT
        if writes or path in self._known or not is_missed(path, start=self._start):
            return
        self._known.add(path)
        # Not by `print`: it may hold the lock of what is just being opened
        os.write(2, f"warning: {_told(path, self._start)}\n".encode())


def is_missed(path: str, *, start: Path, here: Path | None = None) -> bool:
    """Whether a relative `path` leads nowhere from `here` (None: the working directory), and would
    from `start`."""
    if os.path.isabs(path):
        return False
    return not os.path.lexists((here or Path()) / path) and os.path.exists(start / path)


def hint_of(error: BaseException, *, start: Path, here: Path) -> str:
    """What to add to the message of an error that came of a missed path; else nothing."""
    seen: BaseException | None = error
    while seen is not None:
        path = getattr(seen, "filename", None) if isinstance(seen, OSError) else None
        if isinstance(path, str) and is_missed(path, start=start, here=here):
            return f"; {_told(path, start)}"
        seen = seen.__cause__ or seen.__context__
    return ""


def _told(path: str, start: Path) -> str:
    return (
        f"{path!r} lies in {start}, where the search was started, and a trial works in a folder "
        f"of its own: name it as tuner.start_dir() / {path!r}"
    )


@cache
def _audit_reads() -> None:
    """Let `_look` see what this process opens and lists from now on; it cannot be undone."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _READERS and _look is not None and isinstance(arguments[0], str):
            _look(arguments[0], arguments[-1])

    sys.addaudithook(hook)
