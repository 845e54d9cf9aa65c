"""The copy on this machine of an experiment in an object store."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from uuid import uuid4

from tuner.errors import UsageError
from tuner.experiment import files
from tuner.experiment.journal import is_locked
from tuner.experiment.remote import segments
from tuner.experiment.remote.lease import Lease, acquire_lease, is_held
from tuner.experiment.remote.objects import Objects, retry
from tuner.experiment.remote.sync import RemoteSync
from tuner.threads import run_in_thread

_log = logging.getLogger(__name__)

_EVENT_FILES_EVERY_S = 30.0
# The generation of the journal here, and how many bytes of it were fetched
_FETCHED = ".brought"


class Mirror:
    """The copy at `folder` of the experiment below `url`.

    Methods raise UsageError without the store; those that try for a minute raise OSError.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url

    @property
    def objects(self) -> Objects:
        return Objects(self.url)

    def is_taken(self) -> bool:
        with self.objects.translate_errors() as objects:
            return objects.has(files.EXPERIMENT)

    def is_driven(self) -> bool:
        with self.objects.translate_errors() as objects:
            return is_locked(self.folder) or is_held(objects)

    def reserve(self, document: bytes) -> bool:
        """Create experiment.json in the store; False if there is one. As `Objects.create`."""
        with self.objects.translate_errors() as objects:
            objects.check_create()
            if not objects.create(files.EXPERIMENT, document):
                return False
        shutil.rmtree(self.folder, ignore_errors=True)  # of an earlier experiment
        return True

    @contextmanager
    def open_storage(self, warn: Callable[[str], object]) -> Iterator[RemoteSync]:
        with self.objects.translate_errors():
            lease = self._acquire_lease(warn)
        sync = RemoteSync(self.folder, lease, self.upload)
        try:
            self._refresh()
            yield sync
        finally:
            if not sync.is_lost:
                try:
                    lease.release()
                except OSError as error:
                    _log.warning(
                        "%s stays held for a while: %s", self.url, error.strerror
                    )

    def _acquire_lease(self, warn: Callable[[str], object]) -> Lease:
        objects = self.objects
        return acquire_lease(objects, lambda: segments.fetch(objects).end, warn=warn)

    def refresh(self) -> None:
        """Fetch the documents and the journal, unless a driver of this machine writes them."""
        if not is_locked(self.folder):
            self._refresh()

    def _refresh(self) -> None:
        """Fetch the documents and the journal, unless the journal here is ahead after a kill."""
        from filelock import FileLock

        with self.objects.translate_errors() as objects:
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / ".refreshing"):  # one process at a time
                for name in files.DOCUMENTS:
                    try:
                        objects.download(name, self.folder / name)
                    except FileNotFoundError:
                        (self.folder / name).unlink(missing_ok=True)
                if (self.folder / files.EXPERIMENT).exists():
                    self._refresh_journal(objects)

    def _refresh_journal(self, objects: Objects) -> None:
        path = self.folder / files.JOURNAL
        note = self.folder / _FETCHED
        local = path.read_bytes() if path.exists() else b""
        try:
            generation, size = map(int, note.read_text().split())
        except (OSError, ValueError):
            generation = 0
            size = 0
        present = (generation, size) if size == len(local) else (0, 0)
        remote = segments.fetch(objects, present=present)
        complete = local[: remote.start] + remote.data
        if not local.startswith(complete):
            files.replace_file(path, lambda new: new.write_bytes(complete))
        elif not path.exists():
            path.touch()
        note.write_text(f"{remote.generation} {len(complete)}")

    def compute_fingerprint(self) -> Hashable:
        with self.objects.translate_errors() as objects:
            try:
                labels = objects.read(files.LABELS)
            except FileNotFoundError:
                labels = b""
            return frozenset(objects.list_sizes("journal").items()), labels

    def create(self, name: str, data: bytes) -> None:
        """Upload a file that must be new; FileExistsError if there is one."""
        if not retry(lambda: self.objects.create(name, data)):
            raise FileExistsError(0, "there is such an object", name)

    def remove(self, warn: Callable[[str], object]) -> None:
        """Remove it from the store, experiment.json last. Raises UsageError if it is driven."""
        with self.objects.translate_errors() as objects:
            self._acquire_lease(warn)
            tops = {name.partition("/")[0] for name in objects.list_names()}
            for top in [*sorted(tops - {files.EXPERIMENT}), files.EXPERIMENT]:
                objects.remove(top)

    def fetch(self, name: str) -> None:
        """Fetch the file or folder `name` if it is missing here; a folder appears complete."""
        path = self.folder / name
        objects = self.objects
        if os.path.exists(path):
            return
        if retry(lambda: objects.has(name)):
            retry(lambda: objects.download(name, path))
            return
        incomplete = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            for file in retry(lambda: objects.list_names(name)):
                inner = PurePosixPath(file).relative_to(name)
                if not {"..", "/"} & set(inner.parts):
                    retry(partial(objects.download, file, incomplete / inner))
            if incomplete.exists() and not path.exists():
                # Another process may have been faster
                incomplete.rename(path)
        finally:
            shutil.rmtree(incomplete, ignore_errors=True)

    def upload(self, path: Path) -> None:
        objects = self.objects
        paths = path.rglob("*") if path.is_dir() else [path]
        for file in (file for file in paths if files.is_uploadable(file, self.folder)):
            retry(
                partial(objects.upload, file, file.relative_to(self.folder).as_posix())
            )

    @contextmanager
    def sync_event_files(self) -> Iterator[None]:
        self._fetch_event_files()

        def keep_fetching(over: Event) -> None:
            while not over.wait(_EVENT_FILES_EVERY_S):
                try:
                    self._fetch_event_files()
                except UsageError as error:
                    _log.warning("%s", error)

        with run_in_thread(keep_fetching):
            yield

    def _fetch_event_files(self) -> None:
        with self.objects.translate_errors() as objects:
            for name, size in objects.list_sizes("trials").items():
                path = self.folder / name
                is_event_file = (
                    path.name.startswith("events.") and ".." not in path.parts
                )
                if is_event_file and not (
                    path.exists() and path.stat().st_size == size
                ):
                    objects.download(name, path)
