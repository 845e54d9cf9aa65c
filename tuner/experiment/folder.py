"""An experiment's folder: its files, locks and location.

The folder may be a copy of an object store's. Methods then fetch before they read and upload what
they write; they raise UsageError without the store, or OSError if they try for a minute.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from reprlib import repr as brief  # short, and safe on what is nested deep
from typing import Any
from uuid import uuid4

from tuner.errors import (
    CheckpointError,
    NameTakenError,
    StorageError,
    UsageError,
    translate_error,
)
from tuner.experiment import files
from tuner.experiment.events import Event
from tuner.experiment.files import Checkpoint, compute_sha256, resolve_path
from tuner.experiment.journal import is_locked, lock_journal
from tuner.experiment.local_sync import LocalSync
from tuner.experiment.reading import read
from tuner.experiment.remote.mirror import Mirror
from tuner.experiment.remote.objects import retry
from tuner.experiment.remote.sync import RemoteSync
from tuner.experiment.trials import CheckpointRecord
from tuner.places import find_storage, find_url, format_path
from tuner.spec.plain_values import parse_json
from tuner.wording import find_program

FORMAT = 1  # of experiment.json
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{32}(\.removed)?", re.DOTALL)
LEFT_S = 3600.0  # after which no process is at work there
Sync = LocalSync | RemoteSync  # what keeps an experiment's storage as new as its folder


class ExperimentFolder:
    """The experiment in the folder `path`. mirror: its object store, or None."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        url = find_url(path)
        self.mirror = Mirror(self.path, url) if url else None

    @property
    def is_remote(self) -> bool:
        """Whether it lies in an object store, and `path` is a copy of it."""
        return self.mirror is not None

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def storage(self) -> str:
        return find_storage(self.path)

    @property
    def location(self) -> str:
        return format_path(self.path)

    def locate(self, name: str) -> str:
        return format_path(self.path / name)

    @property
    def is_taken(self) -> bool:
        return self.mirror.is_taken() if self.mirror else os.path.lexists(self.path)

    @property
    def is_driven(self) -> bool:
        """Whether a live driver has the experiment, on this machine or elsewhere."""
        return self.mirror.is_driven() if self.mirror else is_locked(self.path)

    def create(self, document: dict[str, Any], *, empty: Iterable[str] = ()) -> None:
        """Create the folder with `document` as experiment.json, and `empty` files, atomically.

        Raises NameTakenError if it exists, UsageError if it cannot be created.
        """
        self.refuse_taken()
        if self.mirror:
            document = {**document, "nonce": uuid4().hex}
        data = files.encode(document)
        incomplete = self.path.with_name(f".{self.path.name}.{uuid4().hex}")
        try:
            incomplete.mkdir(parents=True)
            _remove_leftovers(incomplete)
            (incomplete / files.EXPERIMENT).write_bytes(data)
            for name in empty:
                (incomplete / name).touch()
            files.sync_tree(incomplete)
            if self.mirror and not self.mirror.reserve(data):
                raise self._build_taken_error()
            incomplete.rename(self.path)
            files.sync(self.path.parent)
        except OSError as error:
            if self.path.exists() or self.path.is_symlink():
                raise self._build_taken_error() from None
            raise UsageError(f"cannot create {self.path}: {error.strerror}") from error
        finally:
            shutil.rmtree(incomplete, ignore_errors=True)

    def refuse_taken(self) -> None:
        """Raise NameTakenError if the folder exists."""
        if self.is_taken:
            raise self._build_taken_error()

    def _build_taken_error(self) -> NameTakenError:
        resume = f"{find_program()} resume {shlex.quote(find_url(self.path) or self.path.name)}"
        return NameTakenError(
            f"experiment {self.path.name!r} exists in {self.storage}; "
            f"go on with it by: {resume}, or give another name"
        )

    def open_storage(
        self, warn: Callable[[str], object]
    ) -> AbstractContextManager[Sync]:
        """Exclude other drivers; yields the object that syncs the storage.

        warn: called before a long wait for a silent driver. Raises UsageError if another driver
        holds it.
        """
        return (
            self.mirror.open_storage(warn)
            if self.mirror
            else nullcontext(LocalSync(self.path))
        )

    @contextmanager
    def lock_out_drivers(self, warn: Callable[[str], object]) -> Iterator[None]:
        """Exclude all drivers. Raises and warns as `open_storage`."""
        with lock_journal(self.path), self.open_storage(warn):
            yield

    def refresh(self) -> None:
        """Fetch the documents and the journal, unless a driver of this machine writes them."""
        if self.mirror:
            self.mirror.refresh()

    def compute_fingerprint(self) -> Hashable:
        """A value that changes with the journal and the documents, without reading them."""
        return (
            self.mirror.compute_fingerprint()
            if self.mirror
            else compute_local_fingerprint(self.path)
        )

    def read_events(self) -> Iterator[Event]:
        """The events of its journal, oldest first; raises JournalError as `reading.read` does."""
        return read(self.path)

    def read_document(self) -> dict[str, Any]:
        """experiment.json; of the spec only the objective is checked.

        An objective without `choose`, as earlier versions wrote it, chooses the best single epoch.
        Raises UsageError if it is missing, damaged, or of another format.
        """
        path = self.path / files.EXPERIMENT
        cannot = f"{path.parent} is no experiment: cannot read {path}"
        with translate_error(UsageError, cannot, of=OSError):
            document = files.read_object(path)
        if document.get("format") != FORMAT:
            has = brief(document.get("format"))
            raise UsageError(f"{path} has format {has}; this version reads {FORMAT}")
        match document.get("spec"):
            case {
                "objective": {"metric": str(metric), "mode": "min" | "max"} as objective
            } if metric:
                objective.setdefault("choose", "best_epoch")
                return document
            case _:
                raise UsageError(
                    f"{path} is damaged: its spec has no objective of metric and mode"
                )

    def read(self, name: str) -> Any:
        """The JSON document `name`, as present here. Raises as `files.read_json`."""
        return files.read_json(self.path / name)

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON document atomically. Raises StorageError, and as `check`."""
        path = self.path / name
        data = files.encode(document)
        self.check(path)
        with translate_error(
            StorageError, f"cannot write {self.locate(name)}", of=OSError
        ):
            files.replace_file(
                path, lambda partial: partial.write_bytes(data), lasting=True
            )
            self.upload(path)

    def create_file(self, name: str, document: dict[str, Any]) -> None:
        """Create a JSON document atomically. Raises FileExistsError, OSError, and as `check`."""
        data = files.encode(document)
        if self.mirror:
            self.mirror.create(name, data)
            return
        path = self.path / name
        self.check(path)
        self.create_folder(path.parent)
        files.create_file(path, data)

    def read_latest(self, name: str) -> Any:
        """The JSON document `name`, from the store if there is one."""
        return (
            parse_json(self.mirror.objects.read(name))
            if self.mirror
            else self.read(name)
        )

    def remove(self, *, warn: Callable[[str], object]) -> None:
        """Remove the experiment; after a kill the rest is no experiment.

        Raises UsageError if a driver holds it, or it cannot be removed. warn: see `open_storage`.
        """
        self._refuse_link()
        gone = self.path.with_name(f".{self.path.name}.{uuid4().hex}.removed")
        cannot = f"cannot remove {self.path}"
        with lock_journal(self.path), translate_error(UsageError, cannot, of=OSError):
            if self.mirror:
                self.mirror.remove(warn)
            if self.path.exists():  # of one in a store there may be no copy
                self.path.rename(gone)
                shutil.rmtree(gone)

    def rename(self, name: str) -> ExperimentFolder:
        """Rename the folder; returns the new one.

        Raises UsageError if a driver holds it, the name is taken, or it cannot be renamed.
        """
        self._refuse_link()
        if self.mirror:
            raise UsageError(
                f"{self.location} is in an object store, which cannot rename it"
            )
        path = self.path.resolve()
        new = ExperimentFolder(path.with_name(name))
        if new.is_taken:
            raise UsageError(f"{new.location} exists: give another name")
        with (
            lock_journal(path),
            translate_error(UsageError, f"cannot rename {path}", of=OSError),
        ):
            path.rename(new.path)
            files.sync(path.parent)
        return new

    def _refuse_link(self) -> None:
        if self.path.is_symlink():
            raise UsageError(f"{self.path} is a link: name the folder that it leads to")

    def remove_file(self, name: str) -> None:
        """Remove the file or folder `name`, here and in a store. Raises OSError, and as `check`."""
        self.check(self.path / name)
        if mirror := self.mirror:
            retry(lambda: mirror.objects.remove(name))
        _remove(self.path / name)

    def list_sizes(self) -> dict[str, int]:
        """POSIX path -> bytes, of each file here or in the store."""
        if self.mirror:
            with self.mirror.objects.translate_errors() as objects:
                return objects.list_sizes()
        return {
            name: path.lstat().st_size for name, path in files.walk_files(self.path)
        }

    def check(self, path: Path) -> None:
        """Raise UsageError if `path` within it leads elsewhere. Only what is written is checked."""
        with translate_error(UsageError, f"cannot look at {path}", of=OSError):
            fault = files.find_path_fault(path, below=self.path)
        if fault:
            raise UsageError(
                f"cannot write {path}: {fault}, where an experiment has a plain file or folder"
            )

    def create_folder(self, path: Path) -> None:
        """Make a folder within it. Raises OSError, FileNotFoundError if it was moved."""
        if self.mirror:
            self.path.mkdir(parents=True, exist_ok=True)
        files.create_folder(path, below=self.path)

    def fetch(self, name: str) -> Path:
        """The path of `name`, fetched if missing; may not exist. Raises OSError."""
        if self.mirror:
            self.mirror.fetch(name)
        return self.path / name

    def list_files(self, name: str) -> list[str]:
        """Sorted POSIX paths of the files below the folder `name`, here and in the store."""
        names = {file for file, _ in files.walk_files(self.path, name)}
        if mirror := self.mirror:
            names.update(retry(lambda: mirror.objects.list_names(name)))
        return sorted(names)

    def upload(self, path: Path) -> None:
        """Upload the file or folder at `path`; raises OSError if the store fails for a minute."""
        if self.mirror:
            self.mirror.upload(path)

    def drop_copy(self, path: Path) -> None:
        """Remove the file or folder at `path` from this machine if it is only a copy."""
        if self.mirror:
            with suppress(OSError):
                _remove(path)

    def fetch_checkpoint(self, record: CheckpointRecord, trial_id: str) -> Checkpoint:
        """The checkpoint of a journal record. Raises CheckpointError if missing or altered."""
        what = f"checkpoint of trial {trial_id}, epoch {record.epoch}"
        path = resolve_path(self.path, record.path)
        with translate_error(CheckpointError, f"{what} cannot be fetched", of=OSError):
            self.fetch(record.path)
        if not os.path.exists(path):
            raise CheckpointError(f"{what} is missing: {path}")
        digest = compute_sha256(path)
        if digest != record.sha256:
            raise CheckpointError(
                f"{what} is not what was written: {path} has sha256 {digest[:12]}..., "
                f"the journal says {record.sha256[:12]}..."
            )
        return Checkpoint(path, digest, record.epoch)

    def sync_event_files(self) -> AbstractContextManager[None]:
        """Fetch TensorBoard's event files now, which may raise, and every half a minute."""
        return self.mirror.sync_event_files() if self.mirror else nullcontext()


def _remove_leftovers(new: Path) -> None:
    """Remove what a kill has left, beside the `new` folder, of folders created or removed there."""
    now = new.stat().st_ctime  # by the clock of the storage
    for path in new.parent.glob(".*"):
        with suppress(OSError):  # of another user, or removed by another process
            if _LEFTOVER.fullmatch(path.name) and now - path.lstat().st_ctime > LEFT_S:
                shutil.rmtree(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def compute_local_fingerprint(folder: Path) -> Hashable:
    """The fingerprint of a folder that is no copy: two looks at the file system."""
    return _read_file_stat(folder), _read_file_stat(folder / files.JOURNAL)


def _read_file_stat(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
