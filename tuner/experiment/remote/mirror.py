"""The copies that this machine keeps of experiments in an object store.

What is read is fetched when it is asked for; what is written is uploaded by whoever wrote it. None
of this does anything for an experiment that lies in a folder of its own. A store that cannot be
read or written raises UsageError; of `fetch` and `upload`, which try for a minute, OSError.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from uuid import uuid4

from tuner import process
from tuner.errors import UsageError, translate_error
from tuner.experiment.files import DOCUMENTS, EXPERIMENT, JOURNAL, LABELS, replace_file
from tuner.experiment.remote import lease, segments
from tuner.experiment.remote.objects import Objects, patiently
from tuner.places import url_of

_log = logging.getLogger(__name__)

_EVENT_FILES_EVERY_S = 30.0
_FETCHED = ".brought"  # the generation of the journal here, and how many bytes of it were fetched


def objects_of(folder: Path) -> Objects | None:
    """The objects of the experiment in `folder`; None if that is no copy of a store's."""
    url = url_of(folder)
    return Objects(url) if url else None


def names_in(root: Path, *, known: Container[str] = ()) -> list[str] | None:
    """The experiments of the store that `root` is a copy of; None if it is no copy.

    known: folders that are known to be experiments, so that the store is not asked again.
    """
    objects = objects_of(root)
    if objects is None:
        return None
    with store_errors(objects):
        names = (name for name in objects.folders() if name[0] != ".")
        return [name for name in names if name in known or objects.has(f"{name}/{EXPERIMENT}")]


def mark(folder: Path) -> object | None:
    """What changes with the journal and the labels in the store; None if `folder` is no copy."""
    objects = objects_of(folder)
    if objects is None:
        return None
    with store_errors(objects):
        try:
            labels = objects.read(LABELS)
        except FileNotFoundError:
            labels = b""
        return objects.sizes("journal"), labels


def is_taken(folder: Path) -> bool:
    """Whether there is anything of this name already; for a copy the store decides."""
    objects = objects_of(folder)
    if objects is None:
        return os.path.lexists(folder)
    with store_errors(objects):
        if objects.has(EXPERIMENT):
            return True
        objects.check_bucket()
    return False


def is_held_elsewhere(folder: Path) -> bool:
    """Whether a driver holds the experiment in the store that `folder` is a copy of."""
    objects = objects_of(folder)
    if objects is None:
        return False
    with store_errors(objects):
        return lease.is_held(objects)


def create(folder: Path, document: bytes) -> bool:
    """Create a new experiment in the store; False if its name is taken.

    Removes what an earlier experiment of that name has left in the copy.
    """
    objects = objects_of(folder)
    if objects is None:
        return True
    with store_errors(objects):
        objects.check_create()
        if not objects.create(EXPERIMENT, document):
            return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def remove(folder: Path, *, warn: Callable[[str], object]) -> None:
    """Remove the experiment from the store that `folder` is a copy of.

    What says that there is an experiment goes last: after a kill it is still listed, and can be
    removed again. Raises UsageError where a driver has it.
    """
    objects = objects_of(folder)
    if objects is None:
        return
    with store_errors(objects):
        lease.acquire(objects, lambda: segments.fetch(objects).end, warn=warn)
        _remove_all(objects)


def rename(folder: Path, new: Path, *, warn: Callable[[str], object]) -> None:
    """Give the experiment in the store that `folder` is a copy of the name of `new`.

    It is copied within the store first, what says that there is one last, and then removed: after a
    kill the old one is whole, or both are. Raises UsageError where a driver has it or the new name
    is taken.
    """
    objects, target = objects_of(folder), objects_of(new)
    if objects is None or target is None:
        return
    with store_errors(objects):
        held = lease.acquire(objects, lambda: segments.fetch(objects).end, warn=warn)
        for name in objects.names():
            if name != EXPERIMENT:
                objects.copy(name, target)
        lease.Lease(target, held.generation).release()
        if not target.create(EXPERIMENT, objects.read(EXPERIMENT)):
            held.release()
            raise UsageError(f"{target.url} exists: give another name")
        _remove_all(objects)


def _remove_all(objects: Objects) -> None:
    tops = {name.partition("/")[0] for name in objects.names()}
    for top in sorted(tops - {EXPERIMENT}):
        objects.remove(top)
    objects.remove(EXPERIMENT)


def remove_file(path: Path) -> None:
    """Remove a file or folder of an experiment from the store that it is a copy of, if it is."""
    objects = objects_of(path.parent)
    if objects is not None:
        patiently(lambda: objects.remove(path.name))


def sizes(folder: Path) -> dict[str, int] | None:
    """The bytes of each file of the experiment in the store; None if `folder` is no copy."""
    objects = objects_of(folder)
    if objects is None:
        return None
    with store_errors(objects):
        return objects.sizes()


def refresh(folder: Path) -> None:
    """Fetch the experiment's documents and its journal into the copy `folder`.

    If the journal here is ahead of the store's it stays: a driver was killed on this machine before
    it uploaded the rest. Do not call it while a driver of this machine writes the journal.
    """
    from filelock import FileLock

    objects = objects_of(folder)
    if objects is None:
        return
    with store_errors(objects):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".refreshing"):  # one process at a time
            for name in DOCUMENTS:
                try:
                    objects.download(name, folder / name)
                except FileNotFoundError:
                    (folder / name).unlink(missing_ok=True)
            if (folder / EXPERIMENT).exists():
                _refresh_journal(objects, folder)


def _refresh_journal(objects: Objects, folder: Path) -> None:
    path, note = folder / JOURNAL, folder / _FETCHED
    local = path.read_bytes() if path.exists() else b""
    known = _known(note)
    remote = segments.fetch(objects, known=known if known[1] == len(local) else (0, 0))
    whole = local[: remote.start] + remote.data
    if not local.startswith(whole):
        replace_file(path, lambda partial: partial.write_bytes(whole))
    elif not path.exists():
        path.touch()
    note.write_text(f"{remote.generation} {len(whole)}")


def _known(note: Path) -> tuple[int, int]:
    try:
        generation, size = map(int, note.read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return generation, size


def fetch(path: Path) -> None:
    """Fetch the file or folder at `path`, whole, if it is missing here and the store has it."""
    if os.path.exists(path) or (objects := objects_of(path)) is None:
        return
    base, _, name = objects.url.rpartition("/")
    parent = Objects(base)
    if patiently(lambda: parent.has(name)):
        patiently(lambda: parent.download(name, path))
        return
    names = [n for n in patiently(objects.names) if not {"..", "/"} & set(PurePosixPath(n).parts)]
    incomplete = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        for inner in names:
            patiently(partial(objects.download, inner, incomplete / inner))
        if names and not path.exists():  # another process may have been faster
            incomplete.rename(path)
    finally:
        shutil.rmtree(incomplete, ignore_errors=True)


def upload(path: Path) -> None:
    """Upload the file or folder at `path`."""
    objects = objects_of(path.parent)
    if objects is None:
        return
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    for file in files:
        patiently(partial(objects.upload, file, file.relative_to(path.parent).as_posix()))


def create_file(path: Path, data: bytes) -> bool:
    """Write a new object of an experiment's; False if the experiment is in no store.

    Raises FileExistsError, and OSError if the store fails for a minute.
    """
    objects = objects_of(path.parent)
    if objects is None:
        return False
    if not patiently(lambda: objects.create(path.name, data)):
        raise FileExistsError(0, "there is such an object", path.name)
    return True


def read(path: Path) -> bytes | None:
    """What the object at `path` holds; None if the experiment is in no store. Raises OSError."""
    objects = objects_of(path.parent)
    return objects.read(path.name) if objects else None


def names_below(folder: Path, name: str) -> list[str]:
    """What the store has below the folder `name` of the experiment; nothing if there is none."""
    objects = objects_of(folder)
    return patiently(lambda: objects.names(name)) if objects else []


def drop_copy(path: Path) -> None:
    """Remove a file or folder from this machine if it is only a copy of the store's."""
    if url_of(path) is None:
        return
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def event_files_synced(folder: Path) -> Iterator[None]:
    """Within it TensorBoard's event files are fetched, at once and every half a minute.

    Only the first time raises, where the store cannot be read.
    """
    fetch_event_files(folder)

    def keep_fetching(over: Event) -> None:
        while url_of(folder) and not over.wait(_EVENT_FILES_EVERY_S):
            try:
                fetch_event_files(folder)
            except UsageError as error:
                _log.warning("%s", error)

    with process.running(keep_fetching):
        yield


def fetch_event_files(folder: Path) -> None:
    """Fetch the event files of TensorBoard that have changed."""
    objects = objects_of(folder)
    if objects is None:
        return
    with store_errors(objects):
        for name, size in objects.sizes("trials").items():
            path = folder / name
            is_event_file = path.name.startswith("events.") and ".." not in path.parts
            if is_event_file and not (path.exists() and path.stat().st_size == size):
                objects.download(name, path)


def store_errors(objects: Objects) -> AbstractContextManager[None]:
    """Turn what the store refuses into a UsageError."""
    return translate_error(UsageError, f"cannot reach {objects.url}", of=OSError)
