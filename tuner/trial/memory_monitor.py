"""Ends the worker that holds the most, before the machine runs out of memory.

Ray's own monitor ends the workers that began last, and the system's ends any process, or hangs
first. A worker that is ended here gets a note, so that its trial fails as out of memory.
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
from typing import Any

import psutil

from tuner import ray_compat
from tuner.spec import quotas
from tuner.threads import run_in_thread
from tuner.trial.failures import Failure
from tuner.trial.memory import measure_held_bytes
from tuner.trial.worker_death import write_note

Memory = Callable[[], tuple[int, int]]  # bytes that are free, bytes in all
_CHECK_EVERY_S = 0.2
_RESERVED_SHARE = 0.05
_MOST_RESERVED = 1 << 30  # of the machine's memory, and bytes: stay free
_GONE_S = 5.0


def watch_memory(
    notes: Path, pids: Callable[[], Iterable[int]], memory: Memory | None = None
) -> AbstractContextManager[None]:
    """Within it, one of the workers among the processes `pids` is ended when memory gets short."""
    return run_in_thread(partial(_watch, notes, pids, memory or measure_memory))


def measure_memory(
    limit_of: Callable[[], Any] = quotas.find_memory_limit,
) -> tuple[int, int]:
    """(bytes that are free, bytes in all), of the machine or of what this process may use of it."""
    machine = psutil.virtual_memory()
    free = machine.available
    total = machine.total
    if limited := limit_of():
        limit, left = limited
        free = min(free, left)
        total = min(total, int(limit.amount))
    return free, total


def _watch(
    notes: Path,
    pids: Callable[[], Iterable[int]],
    memory: Memory,
    over: threading.Event,
) -> None:
    while not over.wait(_CHECK_EVERY_S):
        free, total = memory()
        if free < min(_RESERVED_SHARE * total, _MOST_RESERVED):
            _end_largest(notes, pids())


def _end_largest(notes: Path, pids: Iterable[int]) -> None:
    """End the worker that holds the most, if there is one."""
    held = {pid: _measure_family_bytes(pid) for pid in pids if _is_worker(pid)}
    if not held:
        return
    pid = max(held, key=lambda worker: held[worker])
    message = (
        f"ended at {held[pid] / 2**20:.0f} MiB, the most of all workers: memory ran out"
    )
    write_note(notes, pid, Failure("oom", message))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_S
    while (
        measure_held_bytes(pid) and time.monotonic() < deadline
    ):  # else the next one would be ended too
        time.sleep(0.02)


def _measure_family_bytes(pid: int) -> int:
    """Bytes that a worker and its child processes hold, such as the script of a trial."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        children = []
    return measure_held_bytes(pid) + sum(
        measure_held_bytes(child.pid) for child in children
    )


def _is_worker(pid: int) -> bool:
    """Whether the process is one of Ray's that has work."""
    try:
        title = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    others = (ray_compat.IDLE, *ray_compat.AGENTS)
    return title.startswith(ray_compat.WORKER) and not title.startswith(others)
