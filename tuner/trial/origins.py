"""Where in the user's code an error arose."""

from __future__ import annotations

import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path
from traceback import extract_tb

_LONGEST_LINE = 160  # characters of the line itself
# Of an error that goes to another process, which its traceback cannot
_ATTRIBUTE = "tuner_origin"


def find_origin(error: BaseException) -> str | None:
    """The last line of the user's code, as `train.py:12 in step: x = y`, or that of a cause."""
    kept = error.__dict__.get(_ATTRIBUTE)
    if isinstance(kept, str):
        return kept
    user_frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if _is_user_file(frame.filename)
    ]
    if user_frames:
        frame = user_frames[-1]
        line = " ".join((frame.line or "").split())[:_LONGEST_LINE]
        where = f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
        return f"{where}: {line}" if line else where
    return None if error.__cause__ is None else find_origin(error.__cause__)


def keep_origin(error: BaseException, of: BaseException | None = None) -> None:
    """Store the origin of `error` in it, so that it survives pickling. of: an error to copy from.

    A class that takes no attributes is left alone: it could not be unpickled, either.
    """
    origin = find_origin(of or error)
    if origin is not None:
        with suppress(Exception):
            setattr(error, _ATTRIBUTE, origin)


def _is_user_file(filename: str) -> bool:
    if filename.startswith("<"):  # a prompt, or code that others' code has made
        return filename.startswith(("<stdin", "<ipython-input"))
    path = Path(filename)
    return not any(path.is_relative_to(folder) for folder in _list_library_folders())


@cache
def _list_library_folders() -> frozenset[Path]:
    """The folders of Python, of what is installed, and of tuner."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [Path(sysconfig.get_path(name)) for name in names]
    folders += [Path(__file__).parents[1]]
    return frozenset(path for folder in folders for path in (folder, folder.resolve()))
