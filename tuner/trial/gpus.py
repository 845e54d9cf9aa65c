"""The GPUs that a trial's process uses.

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
# Those with this process's locks, which go when one is closed
_held: dict[str, IO[bytes]] = {}


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
            name: stack.enter_context(file)
            for name, file in _open_files(folder, gpus).items()
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
        name: [part for part in range(_PARTS) if _lock(file, part)]
        for name, file in files.items()
    }


def _lock(file: IO[bytes], part: int) -> bool:
    """Whether this process has locked a part, since no other has."""
    with suppress(BlockingIOError, PermissionError):
        # Which of the two, is the system's choice
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, part)
        return True
    return False
