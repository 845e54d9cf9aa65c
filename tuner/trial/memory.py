"""Memory: what a process or its GPU holds, and how it is released.

Nothing here imports torch by itself.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    import torch

_MIB = 1 << 20
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3  # what mallopt sets, as malloc.h numbers it
_MOST_KEPT = 2**31 - 1
_LARGEST_KEPT = 32 * _MIB  # bytes: as much as mallopt takes
_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure_held_bytes(pid: int | None = None) -> int:
    """Bytes that a process (None: this one) shares with no other, as with files; 0 if gone."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return max(0, memory.rss - getattr(memory, "shared", 0))  # "shared" is Linux's


def measure_held_mib() -> float:
    """MiB that this process holds, as `measure_held_bytes` counts it, and of tensors on CUDA."""
    cuda = _find_cuda()
    on_device = cuda.memory_allocated() if cuda else 0
    return (on_device + measure_held_bytes()) / _MIB


def keep_freed() -> None:
    """Keep freed memory in this process until `release_memory`, and use it again.

    By default glibc returns large blocks to the system at once, and gets new ones page by page. A
    copy of a state then takes four to seven times as long, and a training step on a CPU is slower.
    Blocks of more than 32 MiB are returned nevertheless. Settings of glibc in the environment stay.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt") and not any(
        name.startswith("MALLOC_") for name in os.environ
    ):
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        libc.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def release_memory() -> None:
    """Return unused memory to the device and to the system."""
    gc.collect()  # first, so that the caches have something to release
    cuda = _find_cuda()
    if cuda:
        cuda.empty_cache()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc otherwise holds on to what was freed
        libc.malloc_trim(0)


def _find_cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


class MemoryWatch:
    """Measures each epoch of one trial, from `begin` to `end`.

    On CUDA memory_mib is what tensors take on the device, peak_memory_share the most, as a share of
    its memory, and host_memory_mib the process's resident memory; elsewhere memory_mib is that.
    """

    def __init__(self, device: torch.device | str) -> None:
        import torch

        self._device = torch.device(device)
        self._cuda = torch.cuda if self._device.type == "cuda" else None

    def begin(self) -> None:
        """From here on the peak is counted."""
        if self._cuda:
            self._cuda.reset_peak_memory_stats(self._device)
            return
        with suppress(OSError):
            # Where it cannot be reset, it is the peak of the process's life
            _CLEAR_REFS.write_text("5")

    def end(self) -> dict[str, float]:
        """The epoch's memory_mib, at its end, and peak_memory_mib; on CUDA the other two, too."""
        resident = _measure_resident_mib()
        if self._cuda is None:
            return {
                "memory_mib": resident,
                "peak_memory_mib": max(resident, _measure_peak_mib()),
            }
        peak = self._cuda.max_memory_allocated(self._device)
        return {
            "memory_mib": self._cuda.memory_allocated(self._device) / _MIB,
            "peak_memory_mib": peak / _MIB,
            "peak_memory_share": peak
            / self._cuda.get_device_properties(self._device).total_memory,
            "host_memory_mib": resident,
        }


def _measure_resident_mib() -> float:
    return psutil.Process().memory_info().rss / _MIB


def _measure_peak_mib() -> float:
    """The largest resident memory since it was last reset; 0 where the system is not Linux."""
    try:  # psutil has the peak only of Windows
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    except OSError:
        return 0.0
