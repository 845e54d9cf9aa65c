"""What one trial's failure is called, and the check of what a trainable reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

_MESSAGE_LENGTH = 500  # characters of a message that the journal keeps; the trial's log has it all

# How CUDA, cuBLAS, cuDNN and the CPU allocator say that memory ran out
_OUT_OF_MEMORY = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "can't allocate memory",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial ended: one of `tuner.errors.FAILURE_KINDS`, and one line that says it."""

    kind: str
    message: str


def failure_of(error: BaseException) -> Failure:
    """The failure that an exception raised by a trainable means.

    >>> failure_of(RuntimeError("CUDA error: out of memory")).kind
    'oom'
    """
    text = " ".join(str(error).split())
    name = type(error).__name__
    message = f"{name}: {text}" if text else name
    memory = isinstance(error, MemoryError) or name == "OutOfMemoryError"
    if memory or (isinstance(error, RuntimeError) and any(m in text for m in _OUT_OF_MEMORY)):
        return Failure("oom", message[:_MESSAGE_LENGTH])
    return Failure("exception", message[:_MESSAGE_LENGTH])


def check_report(report: object, metric: str) -> tuple[dict[str, float], list[str], Failure | None]:
    """What can be recorded of `report`: (metrics, names left out, failure).

    The objective's `metric` must be there as a finite number; other values that are no finite
    numbers are left out. Scalars of numpy and torch count as numbers.
    """
    if not isinstance(report, Mapping):
        kind = type(report).__name__
        return {}, [], Failure("bad_report", f"reported {kind}, not a mapping of metrics")
    numbers = {str(name): _number(value) for name, value in report.items()}
    if metric not in numbers:
        names = ", ".join(sorted(numbers)) or "nothing"
        return {}, [], Failure("bad_report", f"did not report {metric!r}; it reported {names}")
    value = numbers[metric]
    if value is None:
        return {}, [], Failure("bad_report", f"{metric!r} is no number: {report[metric]!r}"[:200])
    if not math.isfinite(value):
        return {}, [], Failure("nan", f"{metric!r} is {value}")
    metrics = {name: v for name, v in numbers.items() if v is not None and math.isfinite(v)}
    return metrics, [name for name in numbers if name not in metrics], None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if not isinstance(value, Real) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return int(value) if isinstance(value, int) else float(value)
