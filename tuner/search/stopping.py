"""What ends a search before its trials do: a signal, a time budget that is spent, or an error."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import Self

from tuner import signals
from tuner.errors import TunerError


class StopRequest:
    """Whether the search is to end before its trials do, and why: a `signal`, or an `error`.

    As a context it takes over SIGINT, SIGTERM and SIGHUP, but for those that are ignored. The first
    one counts. A second Ctrl-C raises KeyboardInterrupt: its user does not want to wait.
    """

    def __init__(self, time_budget_s: float | None) -> None:
        self.signal: int | None = None
        self.error: TunerError | None = None
        self._deadline = None if time_budget_s is None else time.monotonic() + time_budget_s
        self._handled = ExitStack()

    @property
    def requested(self) -> bool:
        """Whether the search is to end now."""
        return self.is_late or self.signal is not None or self.error is not None

    @property
    def is_late(self) -> bool:
        """Whether the time budget is spent."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def fail(self, error: TunerError) -> None:
        """End the search because of `error`; callable from any thread."""
        self.error = error

    def __enter__(self) -> Self:
        self._handled.enter_context(signals.handled(self._on_signal))
        return self

    def __exit__(self, *exception: object) -> None:
        self._handled.close()

    def _on_signal(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
