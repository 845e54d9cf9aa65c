"""Seconds since the epoch that never go back, whatever is done to the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def steady_clock(*, not_before: float = 0.0) -> Clock:
    """A clock that starts with the machine's time and goes on evenly, however that is then set.

    Where the machine's time is before `not_before` it starts there: what is written after a resume
    never seems older than what was written before it, and durations stay true.
    """
    offset = max(time.time(), not_before) - _elapsed()
    return lambda: offset + _elapsed()


def _elapsed() -> float:
    """Seconds since some moment; those that a laptop sleeps count where the system can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
