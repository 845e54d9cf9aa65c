"""What waits for a target is delivered in a thread of its own."""

from __future__ import annotations

import threading
import time
from queue import Queue
from typing import Any

import pytest

from tuner.reporting.deliveries import RefusedError
from tuner.reporting.outbox import END, Outbox

PATIENCE_S = 20


def test_one_slow_target_holds_up_no_other() -> None:
    release, got = threading.Event(), Queue[Any]()
    slow = Outbox("slow", lambda message: release.wait(PATIENCE_S))
    fast = Outbox("fast", got.put)
    for box in (slow, fast):
        box.put(END, {"event": END})
    assert got.get(timeout=PATIENCE_S) == {"event": END}
    release.set()
    for box in (slow, fast):
        box.end()
        box.join(time.monotonic() + PATIENCE_S)


def test_what_is_refused_is_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    tries = []

    def refuse(message: Any) -> None:
        tries.append(message)
        raise RefusedError("no")

    box = Outbox("x", refuse)
    box.put(END, {"event": END})
    box.end()
    box.join(time.monotonic() + PATIENCE_S)
    assert (len(tries), caplog.messages) == (1, ["cannot notify x: no"])
