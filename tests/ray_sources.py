"""Where Ray lies, to look up whether it still has what tuner relies on."""

import inspect
import mmap
from pathlib import Path

import ray

RAY = Path(ray.__file__).parent
_PROGRAMS = RAY / "core/src/ray"
_BINARIES = (
    RAY / "_raylet.so",
    _PROGRAMS / "raylet/raylet",
    _PROGRAMS / "gcs/gcs_server",
)


def is_in_binaries(text):
    for path in _BINARIES:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            if data.find(text.encode()) >= 0:
                return True
    return False


def parameters(function):
    return list(inspect.signature(function).parameters)
