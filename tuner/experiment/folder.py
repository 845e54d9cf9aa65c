"""An experiment's folder: what lies in it, and where it lies.

The folder may be a copy of one in an object store. Then what is read is fetched first, and what is
written is uploaded; only this package knows the difference.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any
from uuid import uuid4

from tuner.errors import NameTakenError, UsageError, translate_error
from tuner.experiment import files
from tuner.experiment.checkpoints import Checkpoint, verified
from tuner.experiment.events import Event
from tuner.experiment.journal import is_locked, locked
from tuner.experiment.local_sync import LocalSync
from tuner.experiment.reading import read, read_naming
from tuner.experiment.remote import mirror
from tuner.experiment.remote.sync import RemoteSync, held
from tuner.experiment.trials import CheckpointRecord
from tuner.places import storage_of, url_of
from tuner.spec.by_value import given_again, is_by_value
from tuner.spec.code import ELSEWHERE
from tuner.spec.plain_values import parse_json
from tuner.wording import printable, program

FORMAT = 1  # of experiment.json
Sync = LocalSync | RemoteSync  # what keeps an experiment's storage as new as its folder


class ExperimentFolder:
    """The experiment in the folder `path` of this machine."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def name(self) -> str:
        """The experiment's name: that of its folder."""
        return self.path.resolve().name

    @property
    def storage(self) -> str:
        """The storage that the experiment lies in, as --storage takes it."""
        return storage_of(self.path)

    @property
    def is_remote(self) -> bool:
        """Whether the experiment lies in an object store, and `path` is a copy of it."""
        return url_of(self.path) is not None

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
        return mirror.is_taken(self.path)

    @property
    def is_driven(self) -> bool:
        """Whether a live driver has the experiment, on this machine or elsewhere."""
        return is_locked(self.path) or mirror.is_held_elsewhere(self.path)

    def create(self, document: dict[str, Any], *, empty: Iterable[str] = ()) -> None:
        """Make a new folder with `document` as its experiment.json, and `empty` files.

        It appears whole or not at all, whatever is killed, and if two create it, one succeeds.
        Raises NameTakenError if it exists, UsageError if it cannot be made.
        """
        if self.is_taken:
            raise self.name_taken()
        data = files.encode(document)
        partial = self.path.with_name(f".{self.path.name}.{uuid4().hex}")
        try:
            partial.mkdir(parents=True)
            (partial / files.EXPERIMENT).write_bytes(data)
            for name in empty:
                (partial / name).touch()
            files.sync_tree(partial)
            if not mirror.create(self.path, data):
                raise self.name_taken()
            partial.rename(self.path)
            files.sync(self.path.parent)
        except OSError as error:
            if self.path.exists() or self.path.is_symlink():
                raise self.name_taken() from None
            raise UsageError(f"cannot create {self.path}: {error.strerror}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

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

    def held(self, warn: Callable[[str], object]) -> AbstractContextManager[Sync]:
        """Within it no other driver has the experiment; yields what keeps its storage in sync.

        warn: called if it takes a while until a silent driver counts as dead. Raises UsageError if
        another driver has it.
        """
        return held(self.path, warn=warn)

    @contextmanager
    def undriven(self, warn: Callable[[str], object]) -> Iterator[None]:
        """Within it no driver has the experiment, and none begins. Raises and warns as `held`."""
        with locked(self.path), self.held(warn):
            yield

    def refresh(self) -> None:
        """Fetch what a driver elsewhere has written; raises UsageError as `mirror.refresh` does."""
        if not is_locked(self.path):
            mirror.refresh(self.path)

    def mark(self) -> object:
        """What is another once the journal or a document has changed; the record is not read.

        Raises UsageError if a store fails.
        """
        if (remote := mirror.mark(self.path)) is not None:
            return remote
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
        mirror.upload(path)

    def create_file(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON document that must be new, whole or not at all.

        Raises FileExistsError, OSError, and as `check` does.
        """
        self.check()
        path, data = self.path / name, files.encode(document)
        if not mirror.create_file(path, data):
            self.make_folder(path.parent)
            files.create_file(path, data)

    def read_latest(self, name: str) -> Any:
        """What the JSON document `name` holds where the experiment lies, not in a copy of it.

        Raises as `read` does.
        """
        data = mirror.read(self.path / name)
        return self.read(name) if data is None else parse_json(data)

    def remove(self, *, warn: Callable[[str], object]) -> None:
        """Remove the experiment with all that it has; what a kill leaves is no experiment.

        Raises UsageError where a driver has it, or it cannot be removed. warn: as for `held`.
        """
        self._refuse_link()
        gone = self.path.with_name(f".{self.path.name}.{uuid4().hex}.removed")
        cannot = f"cannot remove {self.path}"
        with locked(self.path), translate_error(UsageError, cannot, of=OSError):
            mirror.remove(self.path, warn=warn)
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
            mirror.rename(self.path, new.path, warn=warn)
            if self.is_remote:
                shutil.rmtree(new.path, ignore_errors=True)  # an older copy
            if self.path.exists():
                self.path.resolve().rename(new.path)
                files.sync(new.path.parent)
        return new

    def _refuse_link(self) -> None:
        if self.path.is_symlink():
            raise UsageError(f"{self.path} is a link: name the folder that it leads to")

    def remove_file(self, name: str) -> None:
        """Remove its file or folder `name`, in the store and here.

        Raises OSError, also if the store fails for a minute, and UsageError as `check` does.
        """
        self.check()
        mirror.remove_file(self.path / name)
        if (self.path / name).is_dir():
            shutil.rmtree(self.path / name)
        else:
            (self.path / name).unlink(missing_ok=True)

    def sizes(self) -> dict[str, int]:
        """The bytes of each file in it, by its POSIX path; of a store's what lies there."""
        remote = mirror.sizes(self.path)
        if remote is not None:
            return remote
        found = (Path(root, name) for root, _, names in os.walk(self.path) for name in names)
        return {f.relative_to(self.path).as_posix(): f.lstat().st_size for f in found}

    def check(self) -> None:
        """Raise UsageError if the folder holds anything that must not be written to."""
        files.check_folder(self.path)

    def make_folder(self, path: Path) -> None:
        """Make a folder within it, and those that lead there.

        Raises OSError, FileNotFoundError where the experiment has gone: no half one comes back. A
        copy of one in a store is made on whichever machine a trial runs.
        """
        if self.is_remote:
            self.path.mkdir(parents=True, exist_ok=True)
        files.make_folder(path, below=self.path)

    def fetch(self, name: str) -> Path:
        """The file or folder `name`, fetched if it is missing here; it may still be missing.

        Raises OSError if the store fails for a minute.
        """
        path = self.path / name
        mirror.fetch(path)
        return path

    def files_below(self, name: str) -> list[str]:
        """The files below its folder `name`, here and in the store: POSIX, relative to `path`.

        Raises OSError if the store fails for a minute.
        """
        found = (Path(root, file) for root, _, names in os.walk(self.path / name) for file in names)
        here = (file.relative_to(self.path).as_posix() for file in found)
        return sorted({*here, *mirror.names_below(self.path, name)})

    # Of a path of this machine below the folder
    upload = staticmethod(mirror.upload)
    drop_copy = staticmethod(mirror.drop_copy)

    def checkpoint(self, record: CheckpointRecord, trial_id: str) -> Checkpoint:
        """The checkpoint that the journal records; raises CheckpointError as `verified` does."""
        return verified(self.path, record, trial_id)

    def event_files_synced(self) -> AbstractContextManager[None]:
        """Within it TensorBoard's event files are fetched, and again every half a minute."""
        return mirror.event_files_synced(self.path)


def mark_here(folder: Path) -> object:
    """What `ExperimentFolder.mark` is of a folder that is no copy: two looks at the file system."""
    return _changed(folder), _changed(folder / files.JOURNAL)


def _changed(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
