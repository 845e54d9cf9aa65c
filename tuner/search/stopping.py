"""What ends a search before its trials do: a signal, a time budget that is spent, or an error."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any, Self

from tuner.errors import TunerError


class StopRequest:
    """Whether the search is to end before its trials do, and why: a `signal`, or an `error`.

    As a context it takes over SIGINT, SIGTERM and SIGHUP; a second signal is not held back. A
    SIGHUP that is ignored stays ignored, so that `nohup` works.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, time_budget_s: float | None) -> None:
        self.signal: int | None = None
        self.error: TunerError | None = None
        self._deadline = None if time_budget_s is None else time.monotonic() + time_budget_s
        self._handlers: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the search is to end now."""
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or self.signal is not None or self.error is not None

    def fail(self, error: TunerError) -> None:
        """End the search because of `error`; callable from any thread."""
        self.error = error

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            is_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            taken = [s for s in self._SIGNALS if not (is_nohup and s == signal.SIGHUP)]
            self._handlers = {s: signal.signal(s, self._on_signal) for s in taken}
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: object) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
