"""What of this machine a search would use: CPUs, GPUs, memory, disks."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from tuner.cluster import access
from tuner.cluster.local_ray import OBJECT_STORE_BYTES
from tuner.reporting.doctor.finding import GIB, Finding, size
from tuner.reporting.doctor.storage import free_space
from tuner.spec import quotas
from tuner.trial import machine_memory

_LEAST_MEMORY = 1 * GIB  # Ray's daemons, its object store, the driver and one worker take as much


def check() -> Iterator[Finding]:
    yield Finding("machine", "CPUs", quotas.cpus_in_words())
    yield from _gpus()
    yield of_memory(*machine_memory.free_and_all(), limited_by=_memory_limit())
    yield _temporary_files(Path(access.TEMPORARY))
    if problem := access.loopback_problem():
        reached, _, advice = problem.partition("; ")
        yield Finding("machine", "loopback", reached, "broken", advice)
    with suppress(OSError):  # not on macOS
        yield of_shared_memory(psutil.disk_usage("/dev/shm").free)


def _gpus() -> Iterator[Finding]:
    """Each NVIDIA GPU, as its driver lists it, and whether torch can use them."""
    fields = "name,memory.total,memory.free,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        yield Finding("machine", "GPUs", "none")
        return
    for number, row in enumerate(csv.reader(done.stdout.splitlines(), skipinitialspace=True)):
        name, total, free, driver = row
        found = f"{name}, {total} MiB of which {free} are free, driver {driver}"
        yield Finding("machine", f"GPU {number}", found)
    import torch

    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} cannot use them"
        advice = "install a torch that is built for this driver's CUDA, or search with --gpus 0"
        yield Finding("machine", "GPUs", found, "warning", advice)


def _memory_limit() -> Path | None:
    """The file that lets this process use less memory than the machine has; None: there is none."""
    limited = quotas.memory_limit()
    if limited is None or limited[0].amount >= psutil.virtual_memory().total:
        return None
    return limited[0].file


def of_memory(free: int, total: int, *, limited_by: Path | None = None) -> Finding:
    """Whether so many bytes of memory are enough for a search; limited_by: what sets the total."""
    found, advice = f"{size(free)} of {size(total)} are free", "end other programs"
    if limited_by:
        found, advice = f"{found}: {limited_by} sets the limit", f"{advice}, or raise the limit"
    broken = ("broken", advice) if free < _LEAST_MEMORY else ()
    return Finding("machine", "memory", found, *broken)


def _temporary_files(folder: Path) -> Finding:
    """Whether Ray could write there: its sockets lie below it."""
    if os.access(folder, os.W_OK):
        return free_space("machine", "temporary files", folder, "remove files there")
    return Finding(
        "machine", "temporary files", f"{folder} is read-only", "broken", "make it writable"
    )


def of_shared_memory(free: int) -> Finding:
    """Whether so many free bytes of /dev/shm are enough for a search."""
    advice = f"make it larger (docker run --shm-size): Ray wants {size(OBJECT_STORE_BYTES)}"
    small = ("warning", advice) if free < OBJECT_STORE_BYTES else ()
    return Finding("machine", "/dev/shm", f"{size(free)} are free", *small)
