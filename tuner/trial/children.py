"""Processes that a trial has started and left running: they end with it.

Each carries a mark in its environment, by which it is found whatever its parent and its session
are. It needs Linux's /proc; elsewhere none is found. What was forked without a program of its own,
as DataLoader's workers are, has no mark, and ends with what it belongs to.

This file is also run by its path, as the guard of `Children.guard`: it uses the standard library
alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
        self._guard: subprocess.Popen[bytes] | None = None  # whose stdin closes as this one dies

    def begin(self) -> None:
        """Mark what this process starts from here on."""
        os.environ[_MARK] = self._mark

    def guard(self) -> None:
        """Have them ended if this process dies, too: by a process that waits for its death."""
        if self._guard is not None:
            return
        unmarked = {name: value for name, value in os.environ.items() if name != _MARK}
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, self._mark],
            env=unmarked,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._guard.wait()  # it leaves the process behind, which is nobody's child

    def end(self) -> int:
        """End those that still run; how many there were."""
        return _end(self._mark)


def _end(mark: str) -> int:
    ended: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        running = _marked(mark) - ended
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


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # Ray kills a worker's children with it
    sys.stdin.buffer.read()
    _end(sys.argv[1])
