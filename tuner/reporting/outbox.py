"""Messages that wait for one target, and the thread that delivers them."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection

from tuner.errors import reason_of
from tuner.reporting.deliveries import Deliver, Message, RefusedError

_log = logging.getLogger(__name__)

# The kinds of messages
END, FAILURE, BEST = "end", "failure", "best"

BEST_EVERY_S = 300.0  # at most, and not before the search has run so long
FLUSH_S = 5.0  # at the end, for what still waits
_PAUSES_S = (1.0, 4.0)  # before it is tried again


class Outbox:
    """Delivers the messages to one target, in a thread of its own.

    name: the target's, to show. A message waits in a slot of its kind, where a newer one takes its
    place: what waits is bounded, and the last one wins. What cannot be delivered is told in one
    warning.
    """

    def __init__(self, name: str, deliver: Deliver, *, best_every_s: float = BEST_EVERY_S) -> None:
        self._name, self._deliver, self._best_every_s = name, deliver, best_every_s
        self._waiting: dict[str, Message] = {}  # by kind, oldest first
        self._best_from = time.monotonic() + best_every_s
        self._changed = threading.Condition()
        self._over, self._warned = False, False
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"notify {name}")
        self._thread.start()

    def put(self, kind: str, message: Message) -> None:
        """Have a message delivered soon; one of its kind that still waits is not."""
        with self._changed:
            if kind == END:
                self._waiting.pop(BEST, None)  # it tells the best as well
            self._waiting[kind] = message
            self._changed.notify()

    def end(self) -> None:
        """Have the thread end once it has delivered what waits."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def join(self, deadline: float) -> None:
        """Wait for its end until `deadline`, by time.monotonic()."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._warn(f"no answer in {FLUSH_S:g} s")

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                self._deliver_patiently(message)
            except Exception as error:  # whatever the target, or apprise, raises
                self._warn(reason_of(error))

    def _next(self) -> Message | None:
        with self._changed:
            while True:
                for kind in self._waiting:
                    if self._wait_of(kind) <= 0:
                        if kind == BEST:
                            self._best_from = time.monotonic() + self._best_every_s
                        return self._waiting.pop(kind)
                if self._over:
                    return None
                self._changed.wait(min(map(self._wait_of, self._waiting), default=None))

    def _wait_of(self, kind: str) -> float:
        """Seconds until a message of this kind may be delivered."""
        return self._best_from - time.monotonic() if kind == BEST else -math.inf

    def _deliver_patiently(self, message: Message) -> None:
        for pause in _PAUSES_S:
            try:
                self._deliver(message)
                return
            except RefusedError:
                raise
            except Exception:
                with self._changed:
                    self._changed.wait_for(lambda: self._over, pause)
        self._deliver(message)

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("cannot notify %s: %s", self._name, reason)


def flush(outboxes: Collection[Outbox]) -> None:
    """Deliver what still waits, for at most FLUSH_S seconds; their threads then end."""
    deadline = time.monotonic() + FLUSH_S
    for outbox in outboxes:
        outbox.end()
    for outbox in outboxes:
        outbox.join(deadline)
