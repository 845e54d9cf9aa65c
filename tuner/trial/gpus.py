"""The GPUs of a trial's process: which of them it uses, and how much memory it may take there.

Several searches may share the GPUs of a machine. The Ray of each counts all of them as free, so a
process chooses among them by file locks, which the system releases when the process ends:

    GPU     a file for each, by its name; a process that uses a share of it locks as many bytes
    door    locked while a process looks at the others and chooses, never while it waits
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import IO
from urllib.parse import quote

VISIBLE = "CUDA_VISIBLE_DEVICES"

_SHARED = "TUNER_SHARED_GPUS"  # in the environment: FOLDER:GPU,GPU
_PARTS = 120  # of a GPU: halves to sixths, eighths and tenths are whole numbers of them
_EVERY_S = 0.2
_EPSILON = 1e-9  # of a share
Files = Mapping[str, IO[bytes]]  # by the names of GPUs
_held: dict[str, IO[bytes]] = {}  # those with this process's locks, which go when one is closed


def build_sharing_variables(folder: Path, gpus: Iterable[str]) -> dict[str, str]:
    """The environment of a search that shares these GPUs with all that have the same `folder`."""
    return {_SHARED: f"{folder}:{','.join(gpus)}"}


def is_shared() -> bool:
    """Whether this process's GPUs are, so that a trial may have to wait for its own."""
    return _SHARED in os.environ


def take(amount: float) -> None:
    """Reserve shared GPUs for this process until it ends, and make only these visible to it.

    Call it before CUDA starts; a second call changes nothing, as does a machine without shared
    GPUs. amount: a share below 1 of one GPU, or whole GPUs. Waits until other searches free them.
    """
    folder, _, names = os.environ.get(_SHARED, "").rpartition(":")
    if not amount or not folder or _held:
        return
    files = _open_files(Path(folder), names.split(","))
    has_reported = False
    while not (taken := _lock_gpus(Path(folder), files, amount)):
        if not has_reported:
            print("waiting for a GPU that another search still uses")
            has_reported = True
        time.sleep(_EVERY_S)
    _held.update(files)
    os.environ[VISIBLE] = ",".join(taken)


def measure_free_shares(folder: Path, gpus: Iterable[str]) -> tuple[float, ...]:
    """The free share of each GPU. A process that has taken a share would lose its locks."""
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(file) for name, file in _open_files(folder, gpus).items()
        }
        stack.enter_context(_lock_door(folder))
        return tuple(len(parts) / _PARTS for parts in _lock_free(files).values())


def _open_files(folder: Path, gpus: Iterable[str]) -> dict[str, IO[bytes]]:
    folder.mkdir(parents=True, exist_ok=True)
    return {name: (folder / f"gpu-{quote(name, safe='')}").open("ab") for name in gpus}


@contextmanager
def _lock_door(folder: Path) -> Iterator[None]:
    with (folder / "door").open("ab") as door:
        fcntl.lockf(door, fcntl.LOCK_EX)
        yield


def _lock_gpus(folder: Path, files: Files, amount: float) -> list[str]:
    """Lock `amount` of the GPUs; returns their names, or none if too few have room.

    The fullest GPUs come first, so that whole ones stay free. A process that waits holds no locks,
    so no two processes wait for each other.
    """
    count = max(1, int(amount))
    # Rounded up, so that no GPU is used twice
    needed = max(1, ceil(min(amount, 1) * _PARTS - _EPSILON))
    with _lock_door(folder):
        free = _lock_free(files)
        by_room = sorted(free, key=lambda name: len(free[name]))
        fitting = [name for name in by_room if len(free[name]) >= needed]
        taken = fitting[:count] if len(fitting) >= count else []
        for name, parts in free.items():
            for part in parts[needed if name in taken else 0 :]:
                fcntl.lockf(files[name], fcntl.LOCK_UN, 1, part)
    return taken


def _lock_free(files: Files) -> dict[str, list[int]]:
    """Lock every free part of the GPUs; returns the parts by the GPU's name."""
    return {
        name: [part for part in range(_PARTS) if _lock(file, part)] for name, file in files.items()
    }


def _lock(file: IO[bytes], part: int) -> bool:
    """Whether this process has locked a part, since no other has."""
    with suppress(BlockingIOError, PermissionError):  # which of the two, is the system's choice
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, part)
        return True
    return False


# What CUDA itself takes of a GPU for each process: its context and the kernels that it loads.
# torch's own limit does not count it.
CONTEXT_BYTES = 512 << 20


class NoGpuError(RuntimeError):
    """A GPU was reserved, and there is none, or too little of it."""


def claim_gpu(gpus: float, *, through_torch: bool) -> None:
    """Limit this process to the share of the GPU that it has reserved.

    gpus: a share below 1, or whole GPUs, which need no limit. through_torch: whether only torch
    uses them; otherwise a torch that is built for CPUs says nothing about them. Raises NoGpuError
    if they cannot be used. A share that is too small for CUDA raises it once torch uses the GPU.
    """
    if not gpus:
        return
    import torch

    if not torch.cuda.is_available():
        built_for = torch.version.cuda or torch.version.hip
        if through_torch or built_for:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
            raise NoGpuError(
                f"this trial reserved a GPU (resources.gpus: {gpus:g}), but its process finds "
                f"none: torch {torch.__version__} is built for {built_for or 'CPUs'}, and "
                f"CUDA_VISIBLE_DEVICES is {visible!r}"
            )
    elif gpus < 1:
        from tuner.trial.torch_compat import run_at_cuda_start

        def limit() -> None:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(compute_memory_share(gpus, total), 0)

        run_at_cuda_start(limit)


def compute_memory_share(share: float, total: int) -> float:
    """The part of a GPU of `total` bytes that torch may take in a process that has `share` of it.

    All processes together then have room for CUDA's own memory, too. Raises NoGpuError where
    nothing is left.
    """
    left = share * total - CONTEXT_BYTES
    if left <= 0:
        raise NoGpuError(
            f"resources.gpus: {share:g} of this GPU is {share * total / 2**20:.0f} MiB, and CUDA "
            f"itself takes about {CONTEXT_BYTES >> 20} MiB of it for each process"
        )
    return left / total
