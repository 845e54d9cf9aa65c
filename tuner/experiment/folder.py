"""An experiment's folder: what lies in it, and where it lies.

`ExperimentFolder(path)` is a `RemoteFolder` where `path` is a copy of an experiment in an object
store. That one fetches before it reads and uploads what it writes; its callers need not know. A
store that cannot be reached raises UsageError, or OSError where a method tries for a minute.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from reprlib import repr as shown  # short, and safe on what is nested deep
from threading import Event as Flag
from typing import Any
from uuid import uuid4

from tuner import process
from tuner.errors import CheckpointError, NameTakenError, UsageError, translate_error
from tuner.experiment import files
from tuner.experiment.checkpoints import Checkpoint, inside, sha256_of
from tuner.experiment.events import Event
from tuner.experiment.journal import is_locked, locked
from tuner.experiment.local_sync import LocalSync
from tuner.experiment.reading import read, read_naming
from tuner.experiment.remote import segments
from tuner.experiment.remote.lease import Lease, acquire, is_held
from tuner.experiment.remote.objects import Objects, patiently
from tuner.experiment.remote.sync import RemoteSync
from tuner.experiment.trials import CheckpointRecord
from tuner.places import storage_of, url_of
from tuner.spec.by_value import given_again, is_by_value
from tuner.spec.code import ELSEWHERE
from tuner.spec.plain_values import parse_json
from tuner.wording import printable, program

_log = logging.getLogger(__name__)

FORMAT = 1  # of experiment.json
_EVENT_FILES_EVERY_S = 30.0
_FETCHED = ".brought"  # the generation of the journal here, and how many bytes of it were fetched
Sync = LocalSync | RemoteSync  # what keeps an experiment's storage as new as its folder


class ExperimentFolder:
    """The experiment in the folder `path` of this machine."""

    is_remote = False  # whether it lies in an object store, and `path` is a copy of it

    def __new__(cls, path: Path | str) -> ExperimentFolder:
        """As pathlib.Path does it, of the class that fits where the experiment lies."""
        return object.__new__(RemoteFolder if url_of(path) else ExperimentFolder)

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __reduce__(self) -> tuple[type[ExperimentFolder], tuple[Path]]:
        return ExperimentFolder, (self.path,)

    @property
    def name(self) -> str:
        """The experiment's name: that of its folder."""
        return self.path.resolve().name

    @property
    def storage(self) -> str:
        """The storage that the experiment lies in, as --storage takes it."""
        return storage_of(self.path)

    @property
    def location(self) -> str:
        """Where it lies, to show to a user: a path, or a URL."""
        return url_of(self.path) or str(self.path)

    def locate(self, name: str) -> str:
        """Where its file `name` lies, to show to a user."""
        path = self.path / name
        return url_of(path) or str(path)

    @property
    def is_taken(self) -> bool:
        """Whether there is anything of this name already."""
        return os.path.lexists(self.path)

    @property
    def is_driven(self) -> bool:
        """Whether a live driver has the experiment, on this machine or elsewhere."""
        return is_locked(self.path)

    def create(self, document: dict[str, Any], *, empty: Iterable[str] = ()) -> None:
        """Make a new folder with `document` as its experiment.json, and `empty` files.

        It appears whole or not at all, whatever is killed, and if two create it, one succeeds.
        Raises NameTakenError if it exists, UsageError if it cannot be made.
        """
        if self.is_taken:
            raise self.name_taken()
        data = files.encode(document)
        incomplete = self.path.with_name(f".{self.path.name}.{uuid4().hex}")
        try:
            incomplete.mkdir(parents=True)
            (incomplete / files.EXPERIMENT).write_bytes(data)
            for name in empty:
                (incomplete / name).touch()
            files.sync_tree(incomplete)
            self._reserve(data)
            incomplete.rename(self.path)
            files.sync(self.path.parent)
        except OSError as error:
            if self.path.exists() or self.path.is_symlink():
                raise self.name_taken() from None
            raise UsageError(f"cannot create {self.path}: {error.strerror}") from error
        finally:
            shutil.rmtree(incomplete, ignore_errors=True)

    def _reserve(self, document: bytes) -> None:
        """Take the name where the experiment is to lie; raises NameTakenError."""

    def name_taken(self) -> NameTakenError:
        """The error for a new experiment whose folder exists."""
        return NameTakenError(
            f"experiment {self.path.name!r} exists in {self.storage}; "
            f"go on with it by: {self._resume}, or give another name"
        )

    @property
    def _resume(self) -> str:
        """The command that goes on with the experiment, or the call where only Python can."""
        trainable = None
        with suppress(UsageError):  # the name is taken, be the folder damaged or not here
            trainable = self.document()["spec"].get("trainable")
        if trainable == ELSEWHERE:
            return f"tuner.AskTell({str(self.path)!r})"
        if isinstance(trainable, str) and is_by_value(trainable):
            return (
                f"tuner.resume_experiment({str(self.path)!r}, {printable(given_again(trainable))})"
            )
        return f"{program()} resume {shlex.quote(url_of(self.path) or self.path.name)}"

    @contextmanager
    def held(self, warn: Callable[[str], object]) -> Iterator[Sync]:
        """Within it no other driver has the experiment; yields what keeps its storage in sync.

        warn: called if it takes a while until a silent driver counts as dead. Raises UsageError if
        another driver has it.
        """
        yield LocalSync(self.path)

    @contextmanager
    def undriven(self, warn: Callable[[str], object]) -> Iterator[None]:
        """Within it no driver has the experiment, and none begins. Raises and warns as `held`."""
        with locked(self.path), self.held(warn):
            yield

    def refresh(self) -> None:
        """Fetch the documents and the journal, unless a driver of this machine writes them."""

    def mark(self) -> object:
        """A value that changes with the journal and the documents, which are not read."""
        return mark_here(self.path)

    def events(self) -> Iterator[Event]:
        """The events of its journal, oldest first; raises JournalError as `reading.read` does."""
        return read(self.path)

    def events_naming(self, word: str) -> Iterator[Event]:
        """Those of them that name `word`; see `reading.read_naming`."""
        return read_naming(self.path, word)

    def document(self) -> dict[str, Any]:
        """experiment.json, with its format and objective checked, the rest of its spec not.

        Raises UsageError for a file that is missing, damaged, or of another format.
        """
        path = self.path / files.EXPERIMENT
        try:
            document = files.read_object(path)
        except OSError as error:
            reason = f"cannot read {path}: {error.strerror}"
            raise UsageError(f"{path.parent} is no experiment: {reason}") from error
        if document.get("format") != FORMAT:
            has = shown(document.get("format"))
            raise UsageError(f"{path} has format {has}; this version reads {FORMAT}")
        match document.get("spec"):
            case {"objective": {"metric": str(metric), "mode": "min" | "max"}} if metric:
                return document
            case _:
                raise UsageError(f"{path} is damaged: its spec has no objective of metric and mode")

    def read(self, name: str) -> Any:
        """What the JSON document `name` holds; raises as `files.read_json` does.

        Fetch it first, unless it is one that `refresh` fetches.
        """
        return files.read_json(self.path / name)

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON document, whole or not at all. Raises OSError, and as `check` does."""
        self.check()
        path, data = self.path / name, files.encode(document)
        files.replace_file(path, lambda partial: partial.write_bytes(data), lasting=True)
        self.upload(path)

    def create_file(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON document that must be new, whole or not at all.

        Raises FileExistsError, OSError, and as `check` does.
        """
        self.check()
        path = self.path / name
        self.make_folder(path.parent)
        files.create_file(path, files.encode(document))

    def read_latest(self, name: str) -> Any:
        """As `read`, but of a copy what the store has now."""
        return self.read(name)

    def remove(self, *, warn: Callable[[str], object]) -> None:
        """Remove the experiment with all that it has; what a kill leaves is no experiment.

        Raises UsageError where a driver has it, or it cannot be removed. warn: as for `held`.
        """
        self._refuse_link()
        gone = self.path.with_name(f".{self.path.name}.{uuid4().hex}.removed")
        cannot = f"cannot remove {self.path}"
        with locked(self.path), translate_error(UsageError, cannot, of=OSError):
            self._remove_stored(warn)
            if self.path.exists():  # of one in a store there may be no copy
                self.path.rename(gone)
                shutil.rmtree(gone)

    def rename(self, name: str, *, warn: Callable[[str], object]) -> ExperimentFolder:
        """The same experiment under a new name, beside where it was.

        Raises UsageError where a driver has it, the name is taken, or it cannot be renamed. warn:
        as for `held`.
        """
        self._refuse_link()
        new = ExperimentFolder(self.path.resolve().with_name(name))
        if new.is_taken:
            raise UsageError(f"{new.location} exists: give another name")
        cannot = f"cannot rename {self.path}"
        with locked(self.path), translate_error(UsageError, cannot, of=OSError):
            self._rename_stored(new, warn)
            if self.path.exists():
                self.path.resolve().rename(new.path)
                files.sync(new.path.parent)
        return new

    def _remove_stored(self, warn: Callable[[str], object]) -> None:
        """Remove it from its store."""

    def _rename_stored(self, new: ExperimentFolder, warn: Callable[[str], object]) -> None:
        """Rename it in its store."""

    def _refuse_link(self) -> None:
        if self.path.is_symlink():
            raise UsageError(f"{self.path} is a link: name the folder that it leads to")

    def remove_file(self, name: str) -> None:
        """Remove its file or folder `name`, in the store and here.

        Raises OSError, also if the store fails for a minute, and UsageError as `check` does.
        """
        self.check()
        if (self.path / name).is_dir():
            shutil.rmtree(self.path / name)
        else:
            (self.path / name).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """The bytes of each file in it, by its POSIX path; of a store's what lies there."""
        paths = (Path(root, name) for root, _, names in os.walk(self.path) for name in names)
        return {path.relative_to(self.path).as_posix(): path.lstat().st_size for path in paths}

    def check(self) -> None:
        """Raise UsageError if the folder holds anything that must not be written to."""
        files.check_folder(self.path)

    def make_folder(self, path: Path) -> None:
        """Make a folder within it, and those that lead there.

        Raises OSError, FileNotFoundError where the experiment has gone: no half one comes back. A
        copy of one in a store is made on whichever machine a trial runs.
        """
        files.make_folder(path, below=self.path)

    def fetch(self, name: str) -> Path:
        """The file or folder `name`, fetched if it is missing here; it may still be missing.

        Raises OSError if the store fails for a minute.
        """
        return self.path / name

    def files_below(self, name: str) -> list[str]:
        """The files below its folder `name`, here and in the store: POSIX, relative to `path`.

        Raises OSError if the store fails for a minute.
        """
        paths = (Path(root, file) for root, _, names in os.walk(self.path / name) for file in names)
        return sorted(path.relative_to(self.path).as_posix() for path in paths)

    def upload(self, path: Path) -> None:
        """Upload the file or folder at `path`; raises OSError if the store fails for a minute."""

    def drop_copy(self, path: Path) -> None:
        """Remove the file or folder at `path` from this machine if it is only a copy."""

    def checkpoint(self, record: CheckpointRecord, trial_id: str) -> Checkpoint:
        """The checkpoint that the journal records; its bytes are read once.

        Raises CheckpointError where it is missing, is not what was written, or lies outside.
        """
        what = f"checkpoint of trial {trial_id}, epoch {record.epoch}"
        path = inside(self.path, record.path)
        with translate_error(CheckpointError, f"{what} cannot be fetched", of=OSError):
            self.fetch(record.path)
        if not os.path.exists(path):
            raise CheckpointError(f"{what} is missing: {path}")
        digest = sha256_of(path)
        if digest != record.sha256:
            raise CheckpointError(
                f"{what} is not what was written: {path} has sha256 {digest[:12]}..., "
                f"the journal says {record.sha256[:12]}..."
            )
        return Checkpoint(path, digest, record.epoch)

    @contextmanager
    def event_files_synced(self) -> Iterator[None]:
        """Within it TensorBoard's event files are fetched, at once and every half a minute.

        Only the first time raises, where the store cannot be read.
        """
        yield


class RemoteFolder(ExperimentFolder):
    """The copy on this machine of an experiment in an object store."""

    is_remote = True

    @property
    def objects(self) -> Objects:
        """The store, from the experiment on."""
        return Objects(self.location)

    @property
    def is_taken(self) -> bool:
        objects = self.objects
        with objects.reaching():
            if objects.has(files.EXPERIMENT):
                return True
            objects.check_bucket()
        return False

    @property
    def is_driven(self) -> bool:
        if super().is_driven:
            return True
        objects = self.objects
        with objects.reaching():
            return is_held(objects)

    def _reserve(self, document: bytes) -> None:
        objects = self.objects
        with objects.reaching():
            objects.check_create()
            if not objects.create(files.EXPERIMENT, document):
                raise self.name_taken()
        shutil.rmtree(self.path, ignore_errors=True)  # of an earlier experiment

    @contextmanager
    def held(self, warn: Callable[[str], object]) -> Iterator[Sync]:
        with self.objects.reaching():
            lease = self._acquire(warn)
        sync = RemoteSync(self.path, lease, self.upload)
        try:
            self._refresh()
            yield sync
        finally:
            if not sync.is_lost:
                try:
                    lease.release()
                except OSError as error:
                    _log.warning("%s stays held for a while: %s", self.location, error.strerror)

    def _acquire(self, warn: Callable[[str], object]) -> Lease:
        objects = self.objects
        return acquire(objects, lambda: segments.fetch(objects).end, warn=warn)

    def refresh(self) -> None:
        if not is_locked(self.path):
            self._refresh()

    def _refresh(self) -> None:
        """Fetch the documents and the journal.

        If the journal here is ahead of the store's it stays: a driver was killed on this machine
        before it uploaded the rest.
        """
        from filelock import FileLock

        objects = self.objects
        with objects.reaching():
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".refreshing"):  # one process at a time
                for name in files.DOCUMENTS:
                    try:
                        objects.download(name, self.path / name)
                    except FileNotFoundError:
                        (self.path / name).unlink(missing_ok=True)
                if (self.path / files.EXPERIMENT).exists():
                    self._refresh_journal(objects)

    def _refresh_journal(self, objects: Objects) -> None:
        path, note = self.path / files.JOURNAL, self.path / _FETCHED
        local = path.read_bytes() if path.exists() else b""
        try:
            generation, size = map(int, note.read_text().split())
        except (OSError, ValueError):
            generation, size = 0, 0
        known = (generation, size) if size == len(local) else (0, 0)
        remote = segments.fetch(objects, known=known)
        complete = local[: remote.start] + remote.data
        if not local.startswith(complete):
            files.replace_file(path, lambda new: new.write_bytes(complete))
        elif not path.exists():
            path.touch()
        note.write_text(f"{remote.generation} {len(complete)}")

    def mark(self) -> object:
        objects = self.objects
        with objects.reaching():
            try:
                labels = objects.read(files.LABELS)
            except FileNotFoundError:
                labels = b""
            return objects.sizes("journal"), labels

    def create_file(self, name: str, document: dict[str, Any]) -> None:
        self.check()
        if not patiently(lambda: self.objects.create(name, files.encode(document))):
            raise FileExistsError(0, "there is such an object", name)

    def read_latest(self, name: str) -> Any:
        return parse_json(self.objects.read(name))

    def _remove_stored(self, warn: Callable[[str], object]) -> None:
        with self.objects.reaching():
            self._acquire(warn)
            self._remove_objects()

    def _remove_objects(self) -> None:
        """Remove experiment.json last: after a kill the experiment can be removed again."""
        objects = self.objects
        tops = {name.partition("/")[0] for name in objects.names()}
        for top in sorted(tops - {files.EXPERIMENT}):
            objects.remove(top)
        objects.remove(files.EXPERIMENT)

    def _rename_stored(self, new: ExperimentFolder, warn: Callable[[str], object]) -> None:
        """Copy it within the store, experiment.json last, and then remove it.

        After a kill the old one is whole, or both are.
        """
        objects, target = self.objects, Objects(new.location)
        with objects.reaching():
            held = self._acquire(warn)
            for name in objects.names():
                if name != files.EXPERIMENT:
                    objects.copy(name, target)
            Lease(target, held.generation).release()
            if not target.create(files.EXPERIMENT, objects.read(files.EXPERIMENT)):
                held.release()
                raise UsageError(f"{target.url} exists: give another name")
            self._remove_objects()
        shutil.rmtree(new.path, ignore_errors=True)  # an older copy

    def remove_file(self, name: str) -> None:
        self.check()
        patiently(lambda: self.objects.remove(name))
        super().remove_file(name)

    def sizes(self) -> dict[str, int]:
        objects = self.objects
        with objects.reaching():
            return objects.sizes()

    def make_folder(self, path: Path) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        super().make_folder(path)

    def fetch(self, name: str) -> Path:
        path, objects = self.path / name, self.objects
        if os.path.exists(path):
            return path
        if patiently(lambda: objects.has(name)):
            patiently(lambda: objects.download(name, path))
            return path
        names = patiently(lambda: objects.names(name))
        incomplete = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            for file in names:
                inner = PurePosixPath(file).relative_to(name)
                if not {"..", "/"} & set(inner.parts):
                    patiently(partial(objects.download, file, incomplete / inner))
            if incomplete.exists() and not path.exists():  # another process may have been faster
                incomplete.rename(path)
        finally:
            shutil.rmtree(incomplete, ignore_errors=True)
        return path

    def files_below(self, name: str) -> list[str]:
        return sorted({*super().files_below(name), *patiently(lambda: self.objects.names(name))})

    def upload(self, path: Path) -> None:
        objects = self.objects
        paths = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
        for file in paths:
            patiently(partial(objects.upload, file, file.relative_to(self.path).as_posix()))

    def drop_copy(self, path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @contextmanager
    def event_files_synced(self) -> Iterator[None]:
        self._fetch_event_files()

        def keep_fetching(over: Flag) -> None:
            while not over.wait(_EVENT_FILES_EVERY_S):
                try:
                    self._fetch_event_files()
                except UsageError as error:
                    _log.warning("%s", error)

        with process.running(keep_fetching):
            yield

    def _fetch_event_files(self) -> None:
        """Fetch the event files of TensorBoard that have changed."""
        objects = self.objects
        with objects.reaching():
            for name, size in objects.sizes("trials").items():
                path = self.path / name
                is_event_file = path.name.startswith("events.") and ".." not in path.parts
                if is_event_file and not (path.exists() and path.stat().st_size == size):
                    objects.download(name, path)


def mark_here(folder: Path) -> object:
    """What `ExperimentFolder.mark` is of a folder that is no copy: two looks at the file system."""
    return _changed(folder), _changed(folder / files.JOURNAL)


def _changed(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
