"""What a process or its GPU holds of memory, whether that only grows, and how some is released.

Nothing here imports torch by itself: a report that looks for leaks needs none.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    import torch

EPOCHS = 5  # successive epochs that have to grow
LEAST_MIB = 1.0  # the growth of one epoch that counts
WATCHED = ("memory_mib", "host_memory_mib")  # metrics that may not grow epoch after epoch
SUSPECT = (
    "most often tensors with their graph, as in a running loss that adds up `loss` "
    "where `loss.detach()` would do, or outputs gathered in a list"
)

_MIB = 1 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # what mallopt sets, as malloc.h numbers it
_MOST_KEPT, _LARGEST_KEPT = 2**31 - 1, 32 * _MIB  # bytes: as much as mallopt takes
_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def steady_growth(samples_mib: Sequence[float]) -> float | None:
    """MiB an epoch by which memory grew, where each of the last epochs grew; else None.

    `samples_mib` holds one value at the end of each epoch. The first is left out, since it
    contains all that is made once.

    >>> steady_growth([100, 300, 320, 340, 362, 380, 400])
    20.0
    >>> steady_growth([100, 300, 320, 340, 340, 380, 400]) is None
    True
    """
    last = samples_mib[1:][-EPOCHS - 1 :]
    grown = [after - before for before, after in pairwise(last)]
    if len(grown) < EPOCHS or min(grown) < LEAST_MIB:
        return None
    return sum(grown) / EPOCHS


def first_growth(samples_mib: Sequence[float]) -> float | None:
    """`steady_growth` at the first epoch after which there was one; None where there never was."""
    ends = range(EPOCHS + 2, len(samples_mib) + 1)
    growths = (steady_growth(samples_mib[:end]) for end in ends)
    return next((growth for growth in growths if growth is not None), None)


def held_bytes(pid: int | None = None) -> int:
    """Bytes that a process (None: this one) shares with no other; 0 where it is gone.

    Files that are mapped into memory do not count: the system takes that memory back as it needs.
    """
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    return max(0, memory.rss - getattr(memory, "shared", 0))  # "shared" is Linux's


def held_mib() -> float:
    """MiB that this process holds, as `held_bytes` counts it, and of tensors on CUDA."""
    cuda = _cuda_in_use()
    on_device = cuda.memory_allocated() if cuda else 0
    return (on_device + held_bytes()) / _MIB


def keep_freed() -> None:
    """Let this process keep, until `release`, what it frees, for what it needs next.

    glibc otherwise returns large blocks to the system at once, and each new one comes page by page:
    a copy of a state takes four to seven times as long by that, and a training step on a CPU is
    slower, too. Blocks of more than 32 MiB are returned nevertheless. Where the environment says
    how glibc is to allocate, that stays.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt") and not any(name.startswith("MALLOC_") for name in os.environ):
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        libc.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def release() -> None:
    """Return to the device and to the system what nothing needs any more."""
    gc.collect()  # first, so that the caches have something to release
    cuda = _cuda_in_use()
    if cuda:
        cuda.empty_cache()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc otherwise holds on to what was freed
        libc.malloc_trim(0)


def _cuda_in_use() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


class MemoryWatch:
    """Measures each epoch of one trial, and warns once where memory grows epoch after epoch.

        watch = MemoryWatch(device)
        watch.begin()
        metrics = learner.step()
        metrics |= watch.end()

    On CUDA memory_mib is what tensors take on the device, and host_memory_mib the resident memory
    of the process; elsewhere memory_mib is that.
    """

    def __init__(self, device: torch.device | str) -> None:
        import torch

        self._device = torch.device(device)
        self._cuda = torch.cuda if self._device.type == "cuda" else None
        self._samples_mib: dict[str, list[float]] = {}
        self._has_nvml = True
        self.warned = False

    def begin(self) -> None:
        """From here on the peak is counted."""
        if self._cuda:
            self._cuda.reset_peak_memory_stats(self._device)
            return
        with suppress(OSError):  # where it cannot be reset, it is the peak of the process's life
            _CLEAR_REFS.write_text("5")

    def end(self) -> dict[str, float]:
        """The epoch's memory_mib, at its end, and peak_memory_mib; on CUDA host_memory_mib, too.

        On CUDA with gpu_busy where NVIDIA's pynvml is installed: the share, 0 to 1, of the last
        moments in which the GPU computed, for whichever process.
        """
        measured = self._on_gpu() if self._cuda else self._resident()
        for name in WATCHED:
            if name in measured:
                self._watch(name, measured[name])
        return measured

    def _watch(self, name: str, now_mib: float) -> None:
        samples = self._samples_mib.setdefault(name, [])
        samples.append(now_mib)
        growth = steady_growth(samples)
        if growth is None or self.warned:
            return
        self.warned = True
        on_gpu = self._cuda is not None and name == "memory_mib"
        print(
            f"warning: the memory {'on the GPU' if on_gpu else 'of the process'} grew in "
            f"each of the last {EPOCHS} epochs, by {growth:.1f} MiB an epoch to "
            f"{now_mib:.0f} MiB. Something is kept from one epoch to the next: {SUSPECT}"
        )

    def _resident(self) -> dict[str, float]:
        now = _resident_mib()
        return {"memory_mib": now, "peak_memory_mib": max(now, _peak_mib())}

    def _on_gpu(self) -> dict[str, float]:
        assert self._cuda is not None
        measured = {
            "memory_mib": self._cuda.memory_allocated(self._device) / _MIB,
            "peak_memory_mib": self._cuda.max_memory_allocated(self._device) / _MIB,
            "host_memory_mib": _resident_mib(),
        }
        if self._has_nvml:
            try:
                measured["gpu_busy"] = self._cuda.utilization(self._device) / 100
            except ModuleNotFoundError:  # pynvml, which is optional
                self._has_nvml = False
            except Exception as error:  # pynvml's own, which torch does not wrap
                self._has_nvml = False
                print(f"no gpu_busy: {type(error).__name__}: {error}")
        return measured


def _resident_mib() -> float:
    return psutil.Process().memory_info().rss / _MIB


def _peak_mib() -> float:
    """The largest resident memory since it was last reset; 0 where the system is not Linux."""
    try:  # psutil has the peak only of Windows
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    except OSError:
        return 0.0
