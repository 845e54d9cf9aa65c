"""Seconds since the epoch that never go back, even if the machine's clock is set back."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


def steady_clock(*, not_before: float = 0.0) -> Clock:
    """A clock that starts with the machine's time and then runs evenly, however that is set.

    It starts no earlier than `not_before`, so what is written after a resume never seems older than
    what was written before it, and durations stay true.
    """
    offset = max(time.time(), not_before) - _elapsed()
    return lambda: offset + _elapsed()


def _elapsed() -> float:
    """Seconds since some moment, including those a laptop sleeps if the system counts them."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
