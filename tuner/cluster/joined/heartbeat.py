"""Watches the head of a joined cluster: without it the search would wait, and then end unexplained.

Ray ends a driver whose head has been gone for a minute, without a word on how to go on.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tuner import background
from tuner.cluster import daemons

_LOOK_EVERY_S = 1.0
_ANSWER_S = 5.0
_REFUSED_S = 10.0  # its machine is there, Ray is not: time for a head that is being restarted
_SILENT_S = 45.0  # nothing is there: a network may come back


@dataclass(slots=True)
class Missing:
    """For how long a head has not answered, from one look to the next."""

    since: float | None = None

    def is_lost(self, error: OSError | None, now: float) -> bool:
        """Whether to give the head up, now that it has answered (None), or with `error`."""
        if error is None:
            self.since = None
            return False
        if self.since is None:
            self.since = now
        refused = isinstance(error, ConnectionRefusedError)
        return now - self.since >= (_REFUSED_S if refused else _SILENT_S)


@contextmanager
def watched(head: str) -> Iterator[None]:
    """Within it, the loss of the head at HOST:PORT is told on stderr and ends this process."""

    def give_up() -> None:
        daemons.give_up(f"the cluster's head at {head} is gone")

    with background.running(partial(_watch, head, give_up)):
        yield


def _watch(head: str, on_loss: Callable[[], object], over: threading.Event) -> None:
    missing = Missing()
    while not over.wait(_LOOK_EVERY_S):
        if missing.is_lost(_error_of(head), time.monotonic()):
            on_loss()
            return


def _error_of(head: str) -> OSError | None:
    """Why the head takes no connection; None where it does."""
    host, _, port = head.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
    except OSError as error:
        return error
    return None
