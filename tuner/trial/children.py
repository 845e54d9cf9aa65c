"""Processes that a trial has started and left running: they end with it.

Each carries a mark in its environment, by which it is found whatever its parent and its session
are. It needs Linux's /proc; elsewhere none is found. What was forked without a program of its own,
as DataLoader's workers are, has no mark, and ends with what it belongs to.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_MARK = "TUNER_TRIAL"
_MOST_ROUNDS = 10  # of a family that goes on forking while it is ended

# In the commands of what a library starts once for its whole process, and which ends with it
_OF_LIBRARIES = (b"multiprocessing.", b"_inductor", b"torch_shm_manager", b"wandb")


class Children:
    """The processes that are started between `begin` and `end`."""

    def __init__(self) -> None:
        self._mark = os.urandom(16).hex()

    def begin(self) -> None:
        """Mark what this process starts from here on."""
        os.environ[_MARK] = self._mark

    def end(self) -> int:
        """End those that still run; how many there were."""
        ended: set[int] = set()
        for _ in range(_MOST_ROUNDS):
            running = _marked(self._mark) - ended
            for pid in running:
                with suppress(ProcessLookupError):  # it was faster
                    os.kill(pid, signal.SIGKILL)
            ended |= running
            if not running:
                break
        return len(ended)


def _marked(mark: str) -> set[int]:
    """The pids of the other processes with `mark` that belong to no library."""
    wanted, found = f"{_MARK}={mark}".encode(), set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            command = (entry / "cmdline").read_bytes()
            if not any(name in command for name in _OF_LIBRARIES):
                found.add(int(entry.name))
    return found - {os.getpid()}
