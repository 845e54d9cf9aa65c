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
from tuner.cluster import local_ray as own_ray
from tuner.doctor import disk
from tuner.doctor.finding import GIB, Finding, size
from tuner.trial import machine_memory

_LEAST_MEMORY = 1 * GIB  # Ray's daemons, its object store, the driver and one worker take as much
_OBJECT_STORE = own_ray.OBJECT_STORE_BYTES


def check() -> Iterator[Finding]:
    cpus = len(os.sched_getaffinity(0))
    yield Finding("machine", "CPUs", f"{cpus} of {os.cpu_count()} may be used")
    yield from _gpus()
    yield _memory()
    yield disk.room("machine", "temporary files", Path(access.TEMPORARY), "remove files there")
    yield from _shared_memory()


def _gpus() -> Iterator[Finding]:
    """Each NVIDIA GPU, as its driver tells; whether torch can use them is torch's to say."""
    fields = "name,memory.total,memory.free,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        yield Finding("machine", "GPUs", "none")
        return
    for number, row in enumerate(csv.reader(told.stdout.splitlines(), skipinitialspace=True)):
        name, total, free, driver = row
        found = f"{name}, {total} MiB of which {free} are free, driver {driver}"
        yield Finding("machine", f"GPU {number}", found)
    import torch

    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} cannot use them"
        advice = "install a torch that is built for this driver's CUDA, or search with --gpus 0"
        yield Finding("machine", "GPUs", found, "warning", advice)


def _memory() -> Finding:
    free, total = machine_memory.free_and_all()
    found = f"{size(free)} of {size(total)} are free"
    if free < _LEAST_MEMORY:
        return Finding("machine", "memory", found, "broken", "end other programs")
    return Finding("machine", "memory", found)


def _shared_memory() -> Iterator[Finding]:
    with suppress(OSError):
        free = psutil.disk_usage("/dev/shm").free
        found = f"{size(free)} are free"
        if free >= _OBJECT_STORE:
            yield Finding("machine", "/dev/shm", found)
        else:
            advice = f"make it larger (docker run --shm-size): Ray wants {size(_OBJECT_STORE)}"
            yield Finding("machine", "/dev/shm", found, "warning", advice)
