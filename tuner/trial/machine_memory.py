"""Before this machine runs out of memory, ends the worker that takes the most of it.

Ray's own monitor ends the workers that began last, whatever they take; the system's ends a process
of anybody, or hangs first. What is ended here is noted, so that its trial's failure has its name.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

from tuner import background
from tuner import ray_compat as ray_internals
from tuner.trial.failures import Failure
from tuner.trial.notes import write

Memory = Callable[[], tuple[int, int]]  # bytes that may still be taken, bytes in all

_LOOK_EVERY_S = 0.2
_KEPT_SHARE, _MOST_KEPT = 0.05, 1 << 30  # of the machine's memory, and bytes: what stays free
_GONE_S = 5.0
_GROUP = Path("/sys/fs/cgroup")


@contextmanager
def watched(
    notes: Path, pids: Callable[[], Iterable[int]], memory: Memory | None = None
) -> Iterator[None]:
    """Within it, one of the workers among the processes `pids` is ended when memory gets short.

    `notes` is the folder of the notes; `memory` tells what is there, as `free_and_all`.
    """
    with background.running(partial(_watch, notes, pids, memory or free_and_all)):
        yield


def free_and_all() -> tuple[int, int]:
    """(bytes that may still be taken, bytes in all), of the machine or of this control group."""
    there = psutil.virtual_memory()
    free, total = there.available, there.total
    with suppress(OSError, KeyError, ValueError):  # "max" is no number: there is no limit
        limit = int((_GROUP / "memory.max").read_text())
        stat = dict(x.split() for x in (_GROUP / "memory.stat").read_text().splitlines())
        taken = int((_GROUP / "memory.current").read_text()) - int(stat["inactive_file"])
        free, total = min(free, max(0, limit - taken)), min(total, limit)
    return free, total


def is_short(free: int, total: int) -> bool:
    """Whether so little is free that a worker is ended."""
    return free < min(_KEPT_SHARE * total, _MOST_KEPT)


def _watch(
    notes: Path, pids: Callable[[], Iterable[int]], memory: Memory, over: threading.Event
) -> None:
    while not over.wait(_LOOK_EVERY_S):
        if is_short(*memory()):
            _end_largest(notes, pids())


def _end_largest(notes: Path, pids: Iterable[int]) -> None:
    """End the worker that holds the most; nothing where there is none."""
    held = {pid: _held(pid) for pid in pids if _is_worker(pid)}
    if not held:
        return
    pid = max(held, key=lambda worker: held[worker])
    told = f"ended at {held[pid] / 2**20:.0f} MiB, the most of all workers: memory ran out"
    write(notes, pid, Failure("oom", told))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_S
    while _held(pid) and time.monotonic() < deadline:  # nobody else is to pay until it is gone
        time.sleep(0.02)


def _is_worker(pid: int) -> bool:
    """Whether the process is one of Ray's that has work."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return False
    others = (ray_internals.IDLE, *ray_internals.AGENTS)
    return title.startswith(ray_internals.WORKER) and not title.startswith(others)


def _held(pid: int) -> int:
    """Bytes of the process that are nobody else's and no file's; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        [size] = [int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:")]
    except (OSError, ValueError):
        return 0
    return size
