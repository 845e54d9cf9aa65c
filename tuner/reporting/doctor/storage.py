"""Whether experiments can be written to a folder or an object store, and how fast."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tuner.errors import UsageError
from tuner.experiment.sharing import round_trips_ms
from tuner.places import is_url
from tuner.reporting.doctor.finding import GIB, Finding, size

_LEAST_FREE = GIB // 2
_LEAST_FILES = 1000  # Ray's own are some hundred
_SLOW_FOLDER_MS = 100
_SLOW_STORE_MS = 1000
_BYTES = 4096  # that are written and read
_FOLDER_TIMES, _STORE_TIMES = 5, 3  # whose median counts


def check(place: str | Path) -> Iterator[Finding]:
    """Whether experiments can be written to this folder, or where it will be made, or this URL."""
    return check_store(str(place)) if is_url(place) else check_folder(Path(place))


def check_folder(folder: Path) -> Iterator[Finding]:
    """Whether experiments can be written to `folder`, or to where it will be made, and how fast."""
    existing = folder.resolve()
    while not existing.exists():
        existing = existing.parent
    found = str(folder) if folder.exists() else f"{folder}, to be made in {existing}"
    try:
        latency = of_latency(*_latencies_ms(existing))
    except OSError as error:
        advice = "give another folder with --storage or $TUNER_STORAGE, or make this one writable"
        yield Finding("storage", "writable", f"{found}: {error.strerror}", "broken", advice)
        return
    yield Finding("storage", "writable", found)
    yield latency
    yield free_space(
        "storage", "disk", existing, "remove old experiments, or give another --storage"
    )


def of_latency(wrote_ms: float, read_ms: float) -> Finding:
    """Whether a folder is written and read fast enough."""
    found = f"{wrote_ms:.1f} ms to write and sync 4 KiB, {read_ms:.1f} ms to read them"
    advice = "a faster disk, or a folder on this machine: every second the journal is synced to it"
    slow = ("warning", advice) if max(wrote_ms, read_ms) > _SLOW_FOLDER_MS else ()
    return Finding("storage", "latency", found, *slow)


def _latencies_ms(folder: Path) -> tuple[float, float]:
    """The medians of writing and syncing 4 KiB, and of reading them: not from memory if possible.

    What an NFS server has is read from it; a disk of this machine may answer from its own memory.
    """
    wrote, read = [], []
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".tuner-doctor-", buffering=0) as file:
        for _ in range(_FOLDER_TIMES):
            begin = time.perf_counter()
            file.write(os.urandom(_BYTES))
            os.fsync(file.fileno())
            wrote.append(1000 * (time.perf_counter() - begin))
            if hasattr(os, "posix_fadvise"):  # not on macOS
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            begin = time.perf_counter()
            os.pread(file.fileno(), _BYTES, file.tell() - _BYTES)
            read.append(1000 * (time.perf_counter() - begin))
    return statistics.median(wrote), statistics.median(read)


def free_space(topic: str, name: str, folder: Path, advice: str) -> Finding:
    """How much is free where `folder` lies; `advice` is for where that is too little."""
    free, inodes = psutil.disk_usage(str(folder)).free, os.statvfs(folder)
    is_full = inodes.f_files and inodes.f_favail < _LEAST_FILES  # some filesystems do not count
    found = f"{inodes.f_favail} more files can be made" if is_full else f"{size(free)} are free"
    broken = ("broken", advice) if is_full or free < _LEAST_FREE else ()
    return Finding(topic, name, f"{found} in {folder}", *broken)


def check_store(url: str, *, slow_ms: float = _SLOW_STORE_MS) -> Iterator[Finding]:
    """Whether objects can be written, read and removed below `url`, and how fast."""
    try:
        took = round_trips_ms(url, _STORE_TIMES)
    except UsageError as error:
        yield Finding("storage", "writable", str(error), "broken", "install what it names")
        return
    except OSError as error:
        advice = "give another storage, or what is needed to use it: a bucket, a key, an endpoint"
        yield Finding("storage", "writable", f"{url}: {error.strerror}", "broken", advice)
        return
    yield Finding("storage", "writable", url)
    latency = statistics.median(took)
    advice = "a bucket in the region of the machines: checkpoints are written there, and read"
    slow = ("warning", advice) if latency > slow_ms else ()
    yield Finding("storage", "latency", f"{latency:.0f} ms to write and read 4 KiB", *slow)
