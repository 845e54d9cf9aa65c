"""The exceptions of tuner, and the faults that a refused spec lists.

    TunerError                 every error that is shown as one clear message
    ├── SpecError              a spec that cannot work; holds all of its faults      exit 2
    ├── UsageError             a wrong name, folder or mix of arguments              exit 2
    │   └── NameTakenError     an experiment of that name exists
    ├── NoUsableTrialError     no trial that could be shown, exported or evaluated   exit 1
    ├── OutputError            stdout cannot be written: a full disk                 exit 1
    ├── InterruptedSearchError a signal ended the search, which can be resumed       exit 128 + n
    └── ExperimentError        the experiment's own failure, not a trial's           exit 1
        ├── SearchClosedError  a search that its driver has let go of, and may open again
        ├── JournalError       a journal that is damaged or cannot be written
        │   └── JournalLostError   its folder has gone, or another driver writes to it
        ├── CheckpointError    a checkpoint that is missing, damaged or not loadable
        ├── StorageError       the experiment's folder cannot be written: full, or read-only
        └── DataError          a data set that cannot be had
            └── UnreadableImagesError   images that no decoder reads                 exit 2

SpecError, UsageError, JournalError and CheckpointError are ValueErrors too. The command line exits
with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

_MOST_SHOWN = 100  # faults of a spec
_LONGEST_SHOWN = 300  # characters of a value

FAILURE_KINDS = (
    "oom",
    "nan",
    "crash",
    "exception",
    "timeout",
    "bad_report",
    "node_lost",
)


class TunerError(Exception):
    """Base of all errors that are the user's to read; `str(error)` is the whole message."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a spec: the key, the rule it breaks, the value, the choices."""

    key: str
    rule: str
    value: object = None
    choices: tuple[str, ...] = ()

    def add_prefix(self, prefix: str) -> Fault:
        """This fault, seen from outside: its key below the key `prefix`."""
        return replace(self, key=".".join(filter(None, (prefix, self.key))))

    def __str__(self) -> str:
        got = "" if self.value is None else f", got {_clip_text(repr(self.value))}"
        available = f"; available: {', '.join(self.choices)}" if self.choices else ""
        return (
            f"{_clip_text(self.key)}: ".removeprefix(": ")
            + f"{self.rule}{got}{available}"
        )


def _clip_text(text: str) -> str:
    """`text`, or the beginning of what fills screens."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


class SpecError(TunerError, ValueError):
    """A spec that cannot work. `faults` has all faults in order; the message the first hundred."""

    exit_code = 2

    def __init__(self, faults: Iterable[Fault], source: str = "the spec") -> None:
        self.faults = tuple(faults)
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        lines = [
            f"{source} has {count}:",
            *(f"  {fault}" for fault in self.faults[:_MOST_SHOWN]),
        ]
        if len(self.faults) > _MOST_SHOWN:
            lines.append(f"  and {len(self.faults) - _MOST_SHOWN} more")
        super().__init__("\n".join(lines))


class UsageError(TunerError, ValueError):
    """A name, folder or combination of arguments that cannot be served."""

    exit_code = 2


class NameTakenError(UsageError):
    """A new experiment whose folder exists."""


class OutputError(TunerError):
    """An output that cannot be written."""


class NoUsableTrialError(TunerError):
    """No trial reported a finite value of the objective, or none kept a checkpoint."""


class InterruptedSearchError(TunerError):
    """A signal ended the search; what was reported is in the journal."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal  # 130 for SIGINT, 143 for SIGTERM


class ExperimentError(TunerError):
    """The experiment itself cannot go on; no single trial is to blame."""


class SearchClosedError(ExperimentError):
    """A search that its driver has closed and may open again; nothing was recorded."""


class JournalError(ExperimentError, ValueError):
    """A journal that cannot be read or written; names the file and the line."""


class JournalLostError(JournalError):
    """The journal of a running search has gone or belongs to another driver."""


class CheckpointError(ExperimentError, ValueError):
    """A checkpoint that is missing, does not match its sha256, or cannot be loaded."""


class StorageError(ExperimentError):
    """A file of the experiment that cannot be written; names the file and the reason."""


class DataError(ExperimentError):
    """A data set that is neither on disk nor to be downloaded; names URL and folder."""


class UnreadableImagesError(DataError):
    """Images of the user's own that cannot be read; names the first ones."""

    exit_code = 2


@contextmanager
def translate_error(
    to: Callable[[str], Exception],
    message: str | Callable[[Any], str],
    *,
    of: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> Iterator[None]:
    """Raise `to(message)` in place of an error of kind `of` that others' code raises within.

    message: what precedes the error's reason, or a function from the error to the complete
    message. A TunerError passes unchanged.
    """
    try:
        yield
    except TunerError:
        raise
    except of as error:
        text = (
            message(error)
            if callable(message)
            else f"{message}: {describe_error(error)}"
        )
        raise to(text) from error


def describe_error(error: Exception) -> str:
    """An error's message in one line, or the name of its class."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    text = (
        error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    )
    return " ".join(text.split()) or type(error).__name__


def build_unknown_fault(key: str, what: str, value: str, known: Iterable[str]) -> Fault:
    """The fault for a name that is not one of `known`, with the nearest known one suggested.

    >>> str(build_unknown_fault("search.strategy", "search", "bo", ["bayesopt", "grid"]))
    "search.strategy: unknown search 'bo'; available: bayesopt, grid"
    """
    names = tuple(sorted(set(known)))
    return Fault(
        key,
        f"unknown {what} {_clip_text(repr(value))}{suggest_similar(value, names)}",
        choices=names,
    )


def suggest_similar(name: str, known: Iterable[str], most: int = 1) -> str:
    """A hint at those of `known` that are closest to `name` or that it begins with, or "".

    >>> suggest_similar("gird", ["grid", "random"]), suggest_similar("maximize", ["max", "min"])
    (" (did you mean 'grid'?)", " (did you mean 'max'?)")
    """
    from difflib import get_close_matches

    forms = {each.lower().replace("-", "_"): each for each in known}
    wanted = name.lower().replace("-", "_")
    near = get_close_matches(wanted, forms, n=most)
    near += [form for form in forms if len(form) > 2 and wanted.startswith(form)]
    names = [repr(forms[form]) for form in dict.fromkeys(near)][:most]
    return f" (did you mean {' or '.join(names)}?)" if names else ""
