"""What this process holds of the machine's memory, and how it gives some back. Needs no torch."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")


def status_mib(name: str) -> float:
    """A size in MiB that Linux tells of this process: VmRSS, VmHWM, RssAnon.

    Raises OSError, KeyError or ValueError where the system is another.
    """
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def held_mib() -> float:
    """MiB that this process alone holds, of tensors on CUDA too; 0 where the system does not tell.

    Files that are mapped into memory do not count: the system takes that back as it needs it.
    """
    cuda = _cuda_in_use()
    on_device = cuda.memory_allocated() / (1 << 20) if cuda else 0.0
    try:
        return on_device + status_mib("RssAnon")
    except (OSError, KeyError, ValueError):
        return on_device


def give_back() -> None:
    """Return to the device and to the system what nothing needs any more."""
    gc.collect()  # before caches are emptied, so that they have something to give back
    cuda = _cuda_in_use()
    if cuda:
        cuda.empty_cache()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc keeps freed memory for itself otherwise
        libc.malloc_trim(0)


def _cuda_in_use() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
