"""The names of trials' failures.

It reads types and messages, looks for a file that a message names, and imports no torch.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from errno import ENOMEM

from tuner.errors import StorageError
from tuner.trial.directories import start_dir
from tuner.trial.origins import find_origin

STORAGE = "storage"  # the kind of a Failure that is the experiment's and no trial's

_LINES_OF_EXIT = 3  # of a script's stderr, in the message of its failure
# Characters of a message in the journal; the trial's log has all of it
_MESSAGE_LENGTH = 1000

# How CUDA, cuBLAS, cuDNN, oneDNN and the CPU allocator say that memory ran out. A handle that
# cannot be made (NOT_INITIALIZED) mostly means that the card is full. oneDNN's "primitive" was seen
# at a limit of memory; of an operation that it does not know it says "primitive descriptor".
_OUT_OF_MEMORY = re.compile(
    r"out of memory|CU(BLAS|DNN)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)|CUFFT_ALLOC_FAILED"
    r"|can't allocate memory|not enough memory|Cannot allocate memory"
    r"|could not create a memory object|could not create a primitive$"
)

# After these every later call to CUDA in the process fails, too
_POISONING = re.compile(
    r"device-side assert|illegal memory access|unspecified launch failure|misaligned address"
    r"|illegal instruction|invalid program counter|invalid address space|hardware stack error"
    r"|operation not supported on global/shared address space|peer access|access of peer GPU memory"
    r"|the launch timed out and was terminated|uncorrectable (ECC|NVLink) error"
    r"|context is destroyed"
    r"|CU(BLAS|DNN)_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR|NOT_INITIALIZED)"
    r"|CUDA error: (initialization error|driver shutting down|unknown error|.*\bMPS\b)"
    r"|CUDA error: all CUDA-capable devices are busy or unavailable"
)

# How gloo, NCCL and torch's store say that a rank has waited for another longer than it may. NCCL
# does not say it to the rank, whose process it ends, but in its log.
_WAITED = re.compile(
    r"Timed out waiting \d+ ?ms for|Application timeout caused pair closure"
    r"|Timed out after \d+ seconds waiting for clients|[Ww]ait timeout after \d+ ?ms"
    r"|timed out in monitoredBarrier|[Cc]ollective operation timeout|watchdog got stuck for"
)
_MISSING_FILE = re.compile(r"FileNotFoundError|No such file or directory")
_QUOTED = re.compile(r"""['"]([^'"]+)['"]""")
# Of a rank, which another one may have closed
_CONNECTION = re.compile(r"gloo/transport/")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial ended: a kind, and a line. poisoned: only a new process can train further."""

    kind: str
    message: str
    poisoned: bool = False


class WorkerSpentError(RuntimeError):
    """Ends a worker's process that is to train no further; carries its trial's failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def build_failure(error: BaseException) -> Failure:
    """The failure for an exception of any class that a trainable has raised.

    The message ends with the last line of the user's code that was running, if there is one.
    """
    if isinstance(error, StorageError):
        return Failure(STORAGE, str(error))
    message = clip_message(format_error(error))
    origin = find_origin(error)
    message = f"{message}, at {origin}" if origin else message
    missing = [
        path for each in _walk_causes(error) for path in _find_missing_paths(each)
    ]
    message += suggest_start_dir(missing)
    kind = "oom" if is_out_of_memory(error) else "exception"
    # NOT_INITIALIZED poisons, too: a smaller size may work, but if it does not, nothing does
    poisons = [
        _POISONING.search(_format_text(e))
        for e in _walk_causes(error)
        if isinstance(e, RuntimeError)
    ]
    return Failure(kind, message, any(poisons))


def build_exit_failure(code: int, last_lines: Sequence[str]) -> Failure:
    """The failure for a script's exit code; below 0 it is the signal that ended it.

    >>> build_exit_failure(1, ["ValueError: no such layer"]).message
    'exit code 1: ValueError: no such layer'
    >>> build_exit_failure(-9, []).message
    'killed by SIGKILL, as the system does when memory runs out'
    """
    last_output = "; ".join(last_lines[-_LINES_OF_EXIT:])
    if code < 0:
        name = signal.Signals(-code).name
        cause = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return Failure(
            "crash",
            clip_message(
                f"killed by {name}{cause}" + (last_output and f": {last_output}")
            ),
        )
    is_oom = _OUT_OF_MEMORY.search(last_output) or (
        last_lines and "MemoryError" in last_lines[-1]
    )
    message = f"exit code {code}: {last_output or 'stderr is empty'}"
    message = clip_message(message)
    if _MISSING_FILE.search(last_output):
        message += suggest_start_dir(_QUOTED.findall(last_output))
    return Failure("oom" if is_oom else "exception", message)


def suggest_start_dir(paths: Sequence[str]) -> str:
    """What a message adds if one of the relative `paths` lies where the search was started."""
    for path in paths:
        if not os.path.isabs(path) and os.path.exists(start_dir() / path):
            return f"; {path} lies where the search was started: open tuner.start_dir() / {path!r}"
    return ""


def _find_missing_paths(error: BaseException) -> list[str]:
    """The paths that an error says do not exist; libraries may name them in the text alone."""
    if not isinstance(error, FileNotFoundError):
        return []
    name = error.filename
    return (
        [os.fsdecode(name)]
        if isinstance(name, str | bytes)
        else _QUOTED.findall(_format_text(error))
    )


def clip_message(message: str) -> str:
    """The message, or the beginning of one that is too long for the journal."""
    return (
        message
        if len(message) <= _MESSAGE_LENGTH
        else f"{message[: _MESSAGE_LENGTH - 3]}..."
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory, the device's or the machine's, ran out, so that a smaller size may fit."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == ENOMEM
    return isinstance(error, RuntimeError) and bool(
        _OUT_OF_MEMORY.search(_format_text(error))
    )


def is_rank_timeout(text: str) -> bool:
    """Whether an error, or a log, says that a rank has waited for another longer than it may."""
    return bool(_WAITED.search(text))


def is_connection_error(error: BaseException) -> bool:
    """Whether the error is of a connection between ranks, and may be another rank's doing."""
    return isinstance(error, RuntimeError) and bool(
        _CONNECTION.search(_format_text(error))
    )


def _walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def format_error(error: BaseException) -> str:
    """The class and the text of an exception, in one line."""
    text = _format_text(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _format_text(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())
    except Exception as inner:  # of a user's `__str__`
        return f"(its text cannot be shown: {type(inner).__name__})"
