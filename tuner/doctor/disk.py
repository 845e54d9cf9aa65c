"""Whether experiments can be written, and how fast."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tuner.doctor.finding import GIB, Finding, Level, size

_LEAST_ROOM = GIB // 2
_SLOW_STORAGE_MS = 100
_PIECE = 4096  # bytes that are written and read


def check(folder: Path) -> Iterator[Finding]:
    """Whether experiments can be written to `folder`, or to where it will be made, and how fast."""
    there = folder.resolve()
    while not there.exists():
        there = there.parent
    found = str(folder) if folder.exists() else f"{folder}, to be made in {there}"
    try:
        wrote, read = _latencies_ms(there)
    except OSError as error:
        advice = "give another folder with --storage or $TUNER_STORAGE, or make this one writable"
        yield Finding("storage", "writable", f"{found}: {error.strerror}", "broken", advice)
        return
    yield Finding("storage", "writable", found)
    slow = max(wrote, read) > _SLOW_STORAGE_MS
    advice = "a faster disk, or a folder on this machine: every second the journal is synced to it"
    told = f"{wrote:.1f} ms to write and sync 4 KiB, {read:.1f} ms to read them"
    yield Finding("storage", "latency", told, *(("warning", advice) if slow else ()))
    yield room("storage", "disk", there, "remove old experiments, or give another --storage")


def _latencies_ms(folder: Path, times: int = 5) -> tuple[float, float]:
    """The medians of writing and syncing 4 KiB, and of reading them: not from memory if possible.

    What an NFS server has is asked of it; a disk of this machine may answer from its own memory.
    """
    wrote, read = [], []
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".tuner-doctor-", buffering=0) as file:
        for _ in range(times):
            begin = time.perf_counter()
            file.write(os.urandom(_PIECE))
            os.fsync(file.fileno())
            wrote.append(1000 * (time.perf_counter() - begin))
            if hasattr(os, "posix_fadvise"):  # not on macOS
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            begin = time.perf_counter()
            os.pread(file.fileno(), _PIECE, file.tell() - _PIECE)
            read.append(1000 * (time.perf_counter() - begin))
    return statistics.median(wrote), statistics.median(read)


def room(topic: str, name: str, folder: Path, advice: str) -> Finding:
    """How much is free where `folder` lies; `advice` is told where that is too little."""
    usage = psutil.disk_usage(str(folder))
    found = f"{size(usage.free)} are free in {folder}"
    level: Level = "broken" if usage.free < _LEAST_ROOM else "ok"
    return Finding(topic, name, found, level, advice if level == "broken" else "")
