"""Tests whether machines share a storage, by marker files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tuner.errors import UsageError, translate_error
from tuner.experiment.remote.objects import Objects, open_objects
from tuner.places import is_url

_BY_DRIVER = "driver"  # the file that is written here
MISSING = "does not see what is written there from here"
NOT_WRITABLE = "cannot write there"


def find_existing_parent(storage: str | Path) -> Path:
    folder = Path(storage).expanduser().resolve()
    return next(each for each in (folder, *folder.parents) if each.exists())


@contextmanager
def write_marker(storage: str | Path) -> Iterator[str]:
    """A new folder in or above the storage, with the driver's file. Raises UsageError."""
    name = f".tuner-shared-{uuid4().hex}"
    base = (
        Objects(str(storage)).url
        if is_url(storage)
        else str(find_existing_parent(storage))
    )
    marker = f"{base}/{name}"
    with translate_error(UsageError, f"cannot write to {base}", of=OSError):
        open_objects(marker).write(_BY_DRIVER, name.encode())
    try:
        yield marker
    finally:
        with suppress(OSError):
            open_objects(base).remove(name)


def find_sharing_fault(marker: str) -> str:
    """Why this machine does not share the storage that the marker is in; "" if it does."""
    try:
        written = open_objects(marker).read(_BY_DRIVER).decode(errors="replace")
        if written != marker.rpartition("/")[2]:
            return MISSING
    except UsageError as error:
        # A package that stores of this kind need is not installed
        return str(error)
    except OSError as error:
        return f"{MISSING}: {error.strerror}" if is_url(marker) else MISSING
    try:
        open_objects(marker).write(uuid4().hex, b"")
    except OSError as error:
        return f"{NOT_WRITABLE}: {error.strerror}"
    return ""
