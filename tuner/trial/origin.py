"""Where in the user's own code an error arose: its last line that is neither installed nor ours."""

from __future__ import annotations

import sys
import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path
from traceback import FrameSummary, extract_tb

_LONGEST = 160  # characters of the line itself
_ATTRIBUTE = "tuner_origin"  # of an error that goes to another process, which its traceback cannot


def origin_of(error: BaseException) -> str | None:
    """As `train.py:12 in step: x = y`; None where no line of the user's was being run.

    Of an error that was raised from another, in no line of the user's, it is the other's.
    """
    kept = error.__dict__.get(_ATTRIBUTE)
    if isinstance(kept, str):
        return kept
    own = [frame for frame in extract_tb(error.__traceback__) if _is_own(frame.filename)]
    if own:
        return _in_words(own[-1])
    return None if error.__cause__ is None else origin_of(error.__cause__)


def keep_origin(error: BaseException, of: BaseException | None = None) -> None:
    """Let the origin of `error` (or that of another one) survive its way to another process.

    Not where its class takes no attribute: then it could not be unpickled there, either.
    """
    origin = origin_of(of or error)
    if origin is not None:
        with suppress(Exception):
            setattr(error, _ATTRIBUTE, origin)


def _in_words(frame: FrameSummary) -> str:
    line = " ".join((frame.line or "").split())
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
    where = f"{_shown(frame.filename)}:{frame.lineno} in {frame.name}"
    return f"{where}: {line}" if line else where


def _is_own(filename: str) -> bool:
    if filename.startswith("<"):  # a prompt, or code that others' code has made
        return filename.startswith(("<stdin", "<ipython-input"))
    path = Path(filename)
    return not any(path.is_relative_to(folder) for folder in _others())


@cache
def _others() -> frozenset[Path]:
    """The folders of Python, of what is installed, and of tuner."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [Path(sysconfig.get_path(name)) for name in names]
    folders += [Path(__file__).parents[1]]
    return frozenset(path for folder in folders for path in (folder, folder.resolve()))


def _shown(filename: str) -> str:
    """The path below where Python finds it, as `package/module.py`."""
    path = Path(filename)
    inside = [path.relative_to(root) for root in sys.path if root and path.is_relative_to(root)]
    return min(map(str, inside), key=len, default=path.name)
