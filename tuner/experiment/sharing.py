"""Whether machines share a storage, and how fast it answers: tried by writing to it.

The path of a storage does not tell whether it is shared, nor a URL whether a machine may use it.
So the driver writes a marker, which every node must find and answer with a file of its own.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tuner.errors import UsageError, translate_error
from tuner.experiment.remote.objects import Objects
from tuner.places import is_url

_BY_DRIVER = "driver"  # the file that is written here
MISSING = "does not see what is written there from here"
NOT_WRITABLE = "cannot write there"

_BYTES = 4096  # of a round trip


@contextmanager
def marker_in(storage: str | Path) -> Iterator[str]:
    """A new folder in the storage, or above it if it does not exist yet, with the driver's file.

    Raises UsageError if it cannot be written.
    """
    name = f".tuner-shared-{uuid4().hex}"
    if is_url(storage):
        place = Objects(str(storage)).url
    else:
        folder = Path(storage).expanduser().resolve()
        while not folder.exists():
            folder = folder.parent
        place = str(folder)
    marker = f"{place}/{name}"
    with translate_error(UsageError, f"cannot write to {place}", of=OSError):
        if not is_url(marker):
            Path(marker).mkdir()
        _write(marker, _BY_DRIVER, name.encode())
    try:
        yield marker
    finally:
        if is_url(marker):
            with suppress(OSError):
                Objects(place).remove(name)
        else:
            shutil.rmtree(marker, ignore_errors=True)


def _read(marker: str, name: str) -> bytes:
    return Objects(marker).read(name) if is_url(marker) else Path(marker, name).read_bytes()


def _write(marker: str, name: str, data: bytes) -> None:
    if is_url(marker):
        Objects(marker).write(name, data)
    else:
        Path(marker, name).write_bytes(data)


def why_not_shared(marker: str) -> str:
    """Why this machine does not share the storage that the marker is in; "" if it does."""
    try:
        if _read(marker, _BY_DRIVER).decode(errors="replace") != marker.rpartition("/")[2]:
            return MISSING
    except UsageError as error:  # a package that stores of this kind need is not installed
        return str(error)
    except OSError as error:
        return f"{MISSING}: {error.strerror}" if is_url(marker) else MISSING
    try:
        _write(marker, uuid4().hex, b"")
    except OSError as error:
        return f"{NOT_WRITABLE}: {error.strerror}"
    return ""


def round_trips_ms(url: str, times: int) -> list[float]:
    """How long it took to write and read 4 KiB below `url`, so many times.

    Raises UsageError if a package that such URLs need is not installed, OSError if the store fails
    or does not return what was written.
    """
    objects, name = Objects(url), f".tuner-doctor-{uuid4().hex}"
    took = []
    for _ in range(times):
        data = os.urandom(_BYTES)
        begin = time.perf_counter()
        objects.write(name, data)
        read = objects.read(name)
        took.append(1000 * (time.perf_counter() - begin))
        if read != data:
            raise OSError(0, "what is read is not what was just written")
    objects.remove(name)
    return took
