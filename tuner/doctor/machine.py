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
from tuner.doctor.finding import GIB, Finding, size
from tuner.doctor.storage import free_space
from tuner.trial import machine_memory

_LEAST_MEMORY = 1 * GIB  # Ray's daemons, its object store, the driver and one worker take as much


def check() -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0))
    yield Finding("machine", "CPUs", f"{cpus} of {os.cpu_count()} may be used")
    yield from _gpus()
    yield of_memory(*machine_memory.free_and_all())
    yield free_space("machine", "temporary files", Path(access.TEMPORARY), "remove files there")
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


def of_memory(free: int, total: int) -> Finding:
    """Whether so many bytes of memory are enough for a search."""
    broken = ("broken", "end other programs") if free < _LEAST_MEMORY else ()
    return Finding("machine", "memory", f"{size(free)} of {size(total)} are free", *broken)


def of_shared_memory(free: int) -> Finding:
    """Whether so many free bytes of /dev/shm are enough for a search."""
    advice = f"make it larger (docker run --shm-size): Ray wants {size(OBJECT_STORE_BYTES)}"
    small = ("warning", advice) if free < OBJECT_STORE_BYTES else ()
    return Finding("machine", "/dev/shm", f"{size(free)} are free", *small)
