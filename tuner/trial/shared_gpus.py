"""The GPUs of a trial's process where several searches, each with a Ray of its own, share them.

Each of these Rays counts every GPU of the machine as its own, so the one that it gives to a process
may be in use by another search. The process therefore chooses among all of them, by locks that the
system gives back when the process ends, however it ends:

    GPU     a file for each, by its name; whoever uses a part of it has locked as many bytes
    door    locked by the one process that chooses; those who come later wait behind it
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import quote

VISIBLE = "CUDA_VISIBLE_DEVICES"

_SHARED = "TUNER_SHARED_GPUS"  # in the environment: FOLDER:GPU,GPU
_PARTS = 1000  # of a GPU
_EVERY_S = 0.2
_EPSILON = 1e-9  # of a share
_held: list[IO[bytes]] = []  # the files with this process's locks, which go when one is closed


def sharing(folder: Path, gpus: Iterable[str]) -> dict[str, str]:
    """The environment of a search that shares these GPUs with all that have the same `folder`."""
    return {_SHARED: f"{folder}:{','.join(gpus)}"}


def take(amount: float) -> None:
    """Show this process as much of the GPUs that are shared, if any are, and keep it to its end.

    To be called before CUDA begins; a second call changes nothing. amount: a share below 1, which
    lies on one GPU, or whole ones. Waits for what another search has yet to give back.
    """
    folder, _, names = os.environ.get(_SHARED, "").rpartition(":")
    if not amount or not folder or _held:
        return
    place, has_told = Path(folder), False
    place.mkdir(parents=True, exist_ok=True)
    with (place / "door").open("ab") as door:
        fcntl.lockf(door, fcntl.LOCK_EX)
        while not (taken := _taken(place, names.split(","), amount)):
            if not has_told:
                print("waiting for a GPU that another search still uses")
                has_told = True
            time.sleep(_EVERY_S)
    _held.extend(taken.values())
    os.environ[VISIBLE] = ",".join(taken)


def _taken(folder: Path, names: Iterable[str], amount: float) -> dict[str, IO[bytes]]:
    """The locked files of GPUs with room for `amount`, by name; empty where there are too few.

    Those come first that have the least room, so that whole ones stay free.
    """
    count, parts = max(1, int(amount)), max(1, int(min(amount, 1) * _PARTS + _EPSILON))
    found = []
    for name in names:
        file = (folder / f"gpu-{quote(name, safe='')}").open("ab")
        free = [part for part in range(_PARTS) if _is_locked_now(file, part)]
        for part in free[parts:]:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, part)
        found.append((len(free), name, file))
    fitting = sorted((one for one in found if one[0] >= parts), key=lambda one: one[0])
    taken = fitting[:count] if len(fitting) >= count else []
    for one in found:
        if one not in taken:
            one[2].close()
    return {name: file for _, name, file in taken}


def _is_locked_now(file: IO[bytes], part: int) -> bool:
    """Whether this process has got a part that nobody had."""
    with suppress(BlockingIOError, PermissionError):  # which of the two, is the system's choice
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, part)
        return True
    return False
