"""Before this machine runs out of memory, ends the worker that holds the most of it.

Ray's own monitor ends the workers that began last, whatever they hold; the system's ends any
process, or hangs first. A worker that is ended here gets a note, so that its trial's failure is
called what it is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import psutil

from tuner import process, ray_compat
from tuner.spec import quotas
from tuner.trial.failures import Failure
from tuner.trial.memory import held_bytes
from tuner.trial.worker_death import write_note

Memory = Callable[[], tuple[int, int]]  # bytes that are free, bytes in all

_CHECK_EVERY_S = 0.2
_RESERVED_SHARE, _MOST_RESERVED = 0.05, 1 << 30  # of the machine's memory, and bytes: stay free
_GONE_S = 5.0


def watched(
    notes: Path, pids: Callable[[], Iterable[int]], memory: Memory | None = None
) -> AbstractContextManager[None]:
    """Within it, one of the workers among the processes `pids` is ended when memory gets short.

    `notes` is the folder of the notes; `memory` measures the machine, as `free_and_all` does.
    """
    return process.running(partial(_watch, notes, pids, memory or free_and_all))


def free_and_all() -> tuple[int, int]:
    """(bytes that are free, bytes in all), of the machine or of what this process may use of it."""
    machine = psutil.virtual_memory()
    free, total = machine.available, machine.total
    if limited := quotas.memory_limit():
        limit, left = limited
        free, total = min(free, left), min(total, int(limit.amount))
    return free, total


def is_short(free: int, total: int) -> bool:
    """Whether so little is free that a worker is ended."""
    return free < min(_RESERVED_SHARE * total, _MOST_RESERVED)


def _watch(
    notes: Path, pids: Callable[[], Iterable[int]], memory: Memory, over: threading.Event
) -> None:
    while not over.wait(_CHECK_EVERY_S):
        if is_short(*memory()):
            _end_largest(notes, pids())


def _end_largest(notes: Path, pids: Iterable[int]) -> None:
    """End the worker that holds the most; nothing where there is none."""
    held = {pid: _held_by_family(pid) for pid in pids if _is_worker(pid)}
    if not held:
        return
    pid = max(held, key=lambda worker: held[worker])
    message = f"ended at {held[pid] / 2**20:.0f} MiB, the most of all workers: memory ran out"
    write_note(notes, pid, Failure("oom", message))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_S
    while held_bytes(pid) and time.monotonic() < deadline:  # else the next one would be ended too
        time.sleep(0.02)


def _held_by_family(pid: int) -> int:
    """Bytes that a worker holds, and what it has started: the script of a trial."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        children = []
    return held_bytes(pid) + sum(held_bytes(child.pid) for child in children)


def _is_worker(pid: int) -> bool:
    """Whether the process is one of Ray's that has work."""
    try:
        title = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    others = (ray_compat.IDLE, *ray_compat.AGENTS)
    return title.startswith(ray_compat.WORKER) and not title.startswith(others)
