"""Mirrors: the folders on this machine that are copies of experiments in an object store.

What is read is brought when it is asked for, what is written is handed over by who wrote it. All of
it does nothing for an experiment in a folder of its own, whose storage is that folder.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from uuid import uuid4

from tuner import background
from tuner.errors import JournalError, UsageError
from tuner.places import url_of
from tuner.record.remote import lease, segments
from tuner.record.remote.objects import Objects, patiently

_log = logging.getLogger(__name__)

DOCUMENT = "experiment.json"
JOURNAL = "journal.jsonl"
CONFIRMED = "confirmed.json"
WARM_START = "warm_start.json"
_CURVES_S = 30.0  # as often as a driver brings them

_KNOWN = ".brought"  # the generation of the journal here, and how many bytes of it were brought


def objects_of(folder: Path) -> Objects | None:
    """The store's objects of the experiment in `folder`; None where that is no mirror."""
    url = url_of(folder)
    return Objects(url) if url else None


def names_in(root: Path) -> list[str] | None:
    """The experiments in the storage of which `root` is the mirror; None where it is none.

    Raises UsageError where the store cannot be read.
    """
    objects = objects_of(root)
    if objects is None:
        return None
    with asking(objects):
        names = (name for name in objects.folders() if name[0] != ".")
        return [name for name in names if objects.has(f"{name}/{DOCUMENT}")]


def is_taken(folder: Path) -> bool:
    """Whether there is anything of that name already: of a mirror the store is asked."""
    objects = objects_of(folder)
    if objects is None:
        return os.path.lexists(folder)
    with asking(objects):
        if objects.has(DOCUMENT):
            return True
        objects.check_bucket()
    return False


def bring_curves(folder: Path) -> None:
    """Bring the event files of TensorBoard that have changed to the mirror `folder`; else nothing.

    Raises UsageError where the store cannot be read.
    """
    objects = objects_of(folder)
    if objects is None:
        return
    with asking(objects):
        for name, size in objects.sizes("trials").items():
            path = folder / name
            is_curve = path.name.startswith("events.") and ".." not in path.parts
            if is_curve and not (path.exists() and path.stat().st_size == size):
                objects.download(name, path)


@contextmanager
def curves_followed(folder: Path) -> Iterator[None]:
    """Within it the event files are brought as `bring_curves` does, from the beginning on."""
    bring_curves(folder)

    def again(over: Event) -> None:
        while url_of(folder) and not over.wait(_CURVES_S):
            try:
                bring_curves(folder)
            except UsageError as error:
                _log.warning("%s", error)

    with background.running(again):
        yield


def is_held_elsewhere(folder: Path) -> bool:
    """Whether a driver holds the experiment of which `folder` is a mirror."""
    objects = objects_of(folder)
    if objects is None:
        return False
    with asking(objects):
        return lease.is_held(objects)


def refresh(folder: Path) -> None:
    """Bring the experiment's documents and journal to its mirror `folder`; of any other, nothing.

    Where the journal here is ahead of the store's, it stays: a driver was killed here before the
    rest was brought. Not to be called while a driver of this machine writes it. Raises UsageError
    where the store cannot be read, or has no such experiment.
    """
    objects = objects_of(folder)
    if objects is None:
        return
    with asking(objects), _alone(folder):
        for name in (DOCUMENT, CONFIRMED, WARM_START):
            try:
                objects.download(name, folder / name)
            except FileNotFoundError:
                (folder / name).unlink(missing_ok=True)
        if (folder / DOCUMENT).exists():
            _refresh_journal(objects, folder)


def _refresh_journal(objects: Objects, folder: Path) -> None:
    path, note = folder / JOURNAL, folder / _KNOWN
    here = path.read_bytes() if path.exists() else b""
    known = _known(note)
    there = segments.fetch(objects, known=known if known[1] == len(here) else (0, 0))
    whole = here[: there.start] + there.data
    if not here.startswith(whole):
        partial = path.with_suffix(".partial")
        partial.write_bytes(whole)
        partial.replace(path)
    elif not path.exists():
        path.touch()
    note.write_text(f"{there.generation} {len(whole)}")


def _known(note: Path) -> tuple[int, int]:
    try:
        generation, size = map(int, note.read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return generation, size


def bring(path: Path) -> None:
    """Bring the file or folder at `path` from the store, where it is missing and a mirror's.

    It appears whole or not at all. What the store does not have stays missing. Raises OSError where
    the store fails for a minute.
    """
    if os.path.exists(path) or (objects := objects_of(path)) is None:
        return
    one = Objects(objects.url.rpartition("/")[0])
    name = objects.url.rpartition("/")[2]
    if patiently(lambda: one.has(name)):
        patiently(lambda: one.download(name, path))
        return
    names = [n for n in patiently(objects.names) if not {"..", "/"} & set(PurePosixPath(n).parts)]
    partly = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        for inner in names:
            patiently(partial(objects.download, inner, partly / inner))
        if names and not path.exists():  # brought by another process meanwhile
            partly.rename(path)
    finally:
        shutil.rmtree(partly, ignore_errors=True)


def hand_over(path: Path) -> None:
    """Put the file or folder at `path`, of a mirror, into the store; of any other path, nothing.

    Raises OSError where the store fails for a minute.
    """
    objects = objects_of(path.parent)
    if objects is None:
        return
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    for file in files:
        patiently(partial(objects.upload, file, file.relative_to(path.parent).as_posix()))


def give_up(path: Path) -> None:
    """Remove a file or folder from the mirror it is of, for the store has it; else do nothing."""
    if url_of(path) is None:
        return
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def create(folder: Path, document: bytes) -> bool:
    """Take the name of a new experiment in the store; False where it is taken.

    What an experiment of that name has left in the mirror, which the store no longer has, goes.
    Of a folder that is no mirror, nothing. Raises UsageError where the store cannot be written.
    """
    objects = objects_of(folder)
    if objects is None:
        return True
    with asking(objects):
        if not objects.create(DOCUMENT, document):
            return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


@contextmanager
def asking(objects: Objects) -> Iterator[None]:
    """What the store refuses, as the user's to mend."""
    try:
        yield
    except JournalError:
        raise
    except OSError as error:
        raise UsageError(f"cannot reach {objects.url}: {error.strerror}") from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of several processes that refresh a mirror, one after the other does."""
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".refreshing"):
        yield
