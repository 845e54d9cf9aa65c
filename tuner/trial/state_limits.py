"""What a state's file may make of itself: as much as it holds, and not one byte of code."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

_MOST_VALUES = 1_000_000
_DEEPEST = 100  # levels of dicts and lists: what walks through them recurses
_MOST_TIMES = 10  # that all of a file's bytes may be used by tensors: weights can be tied


def fault_of_archive(path: Path) -> str | None:
    """Why the archive at `path` is not to be unpacked, in words; None where it may be.

    torch.save compresses nothing; a compressed record could stand for a thousand times its size.
    Raises zipfile.BadZipFile for one that is damaged.
    """
    if not zipfile.is_zipfile(path):
        return None  # torch's older format says how much follows, and what does not follow fails
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(record.file_size for record in archive.infolist())
    return "it unpacks to more than it holds" if unpacked > os.path.getsize(path) else None


def fault_of_state(state: object, size: int) -> str | None:
    """Why a state that was loaded from `size` bytes is not to be worked with; None where it may be.

    A tensor can claim more elements than are stored for it, and every copy of it would have them.
    """
    import torch

    todo: list[tuple[object, int]] = [(state, 0)]
    values = taken = 0
    while todo:
        value, depth = todo.pop()
        values += 1
        if depth > _DEEPEST or values > _MOST_VALUES:
            return "it is nested deeper, or holds more values, than any state"
        if isinstance(value, dict):
            todo += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list | tuple):
            todo += [(inner, depth + 1) for inner in value]
        elif isinstance(value, torch.Tensor):
            taken += value.numel() * value.element_size()
            if taken > size * _MOST_TIMES:
                return "its tensors are larger than what it holds"
    return None
