"""The entries of a queue: files in the storage, below `.queue/NAME/`.

    entry.json   created once: the spec, its user, and where it was added
    lock/        the lease of the runner that has it, as a driver has that of its experiment
    begun.json   created before its search starts for the first time
    ended.json   created once: how it ended
    spec.json    the spec alone, and
    log.txt      the output of its search, both on the machine that ran it

`.queue/.runners/MACHINE/lock/` is the lease of the one runner of a machine or cluster, and `gpus/`
beside it has the locks of a machine's GPUs.

An entry has the name of its experiment. A process that changes an entry holds its lease.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4

from tuner.errors import StorageError, UsageError, translate_error
from tuner.experiment.files import encode, replace_file
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote.lease import Watch, acquire_lease, is_held
from tuner.experiment.remote.objects import Objects, open_objects
from tuner.places import find_default_storage, find_local_folder, is_url
from tuner.spec.by_value import is_by_value
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.notify import is_hidden
from tuner.spec.plain_values import parse_json
from tuner.spec.settings import Settings
from tuner.wording import find_program

FOLDER = ".queue"
_ENTRY = "entry.json"
_BEGUN = "begun.json"
_ENDED = "ended.json"
_RUNNERS = ".runners"

ERROR = "error: "  # how the command line begins an error
WAITING = "waiting"
RUNNING = "running"
COMPLETED = "completed"
FAILED = "failed"
INTERRUPTED = "interrupted"


class Entry(Settings):
    """A search in the queue.

    name: that of its experiment. added: seconds since the epoch. directory: where it was added and
    will start. paths: further paths of Python modules. spec: the plain values of the resolved spec.
    nonce: of the process that adds it.
    """

    name: str
    user: str
    added: float
    directory: str
    paths: tuple[str, ...] = ()
    spec: dict[str, Any]
    nonce: str = ""


def build_entry(
    spec: ExperimentSpec, *, user: str, directory: str, paths: Sequence[str] = ()
) -> Entry:
    """The entry of a validated spec; raises UsageError if another process cannot run it."""
    if is_by_value(spec.trainable):
        raise UsageError(
            f"{spec.trainable} is of a script or a notebook: give it a module to wait"
        )
    plain = spec.model_dump(mode="json")
    if hidden := [target for target in plain["notify"] if is_hidden(target)]:
        raise UsageError(
            f"notify: the rest of {hidden[0]} may be a secret, which is not written into the "
            "queue; write it as ${NAME}, which is read where the search runs"
        )
    return Entry(
        name=spec.name,
        user=user,
        added=time.time(),
        directory=directory,
        paths=tuple(paths),
        spec=plain,
    )


class Ended(Settings):
    """How an entry ended: its status, the exit code of its search if known, and why.

    why: an error, or the last lines of the search's log; "" if it is completed.
    """

    status: str
    code: int | None = None
    why: str = ""
    time: float

    @property
    def reason(self) -> str:
        """The first line of `why` if that is an error, else the last one."""
        first, _, others = self.why.partition("\n")
        return (
            first if first.startswith(ERROR) else (others or first).rpartition("\n")[2]
        )


_Kind = TypeVar("_Kind", Entry, Ended)


class Open(NamedTuple):
    """An entry that has not ended: whether its search was begun, and whether it has a lease."""

    begun: bool
    claimed: bool


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """An entry and its status; ended: None until it has."""

    entry: Entry
    status: str
    ended: Ended | None = None

    def as_dict(self) -> dict[str, Any]:
        entry = self.entry
        ended = self.ended
        return {
            "name": entry.name,
            "user": entry.user,
            "status": self.status,
            "added": entry.added,
            "ended": ended and ended.time,
            "exit_code": ended and ended.code,
            "why": ended.why if ended else "",
        }


class Queue:
    """The entries in a storage: a folder, or a URL; None for the default one.

    Raises StorageError if the storage fails.
    """

    def __init__(self, storage: str | None) -> None:
        storage = storage or find_default_storage()
        if not is_url(storage):
            storage = str(find_local_folder(storage).absolute())
        self.storage = storage.rstrip("/")
        # What this machine alone needs
        self._folder = find_local_folder(self.storage) / FOLDER
        self._objects = open_objects(f"{self.storage}/{FOLDER}")
        self._translated = partial(
            translate_error,
            StorageError,
            f"cannot use the queue in {storage}",
            of=OSError,
        )

    def add(self, entry: Entry, *, is_named: bool = True) -> str:
        """Add an entry and return its name.

        Of a name that is taken, the next free number is added to it; if the user has named the
        entry, UsageError is raised.
        """
        name = entry.name
        number = 1
        while not self._create(entry):
            if is_named:
                raise UsageError(
                    f"the queue of {self.storage} has an entry {name!r}: give another name, or "
                    f"take it out by: {find_program()} queue rm {shlex.quote(name)}"
                )
            number += 1
            spec = {**entry.spec, "name": f"{name}-{number}"}
            entry = entry.model_copy(update={"name": f"{name}-{number}", "spec": spec})
        return entry.name

    def _create(self, entry: Entry) -> bool:
        with self._translated():
            self._objects.check_create()
            if self.find_folder(entry.name).is_taken:
                return False
            entry = entry.model_copy(update={"nonce": uuid4().hex})
            data = entry.model_dump_json(indent=2).encode()
            return self._objects.create(f"{entry.name}/{_ENTRY}", data)

    def list_files(self) -> dict[str, set[str]]:
        """The files of each entry, by its name."""
        by_name: dict[str, set[str]] = {}
        with self._translated():
            for path in self._objects.list_names():
                name, _, file = path.partition("/")
                by_name.setdefault(name, set()).add(file)
        return {name: files for name, files in by_name.items() if _ENTRY in files}

    def list_open(self) -> dict[str, Open]:
        """The entries that have not ended, by name."""
        return {
            name: Open(_BEGUN in files, any(file.startswith("lock/") for file in files))
            for name, files in self.list_files().items()
            if _ENDED not in files
        }

    def read_entry(self, name: str) -> Entry | None:
        """The entry of this name, or None if it is missing or damaged."""
        try:
            return self._read(name, _ENTRY, Entry)
        except ValueError:
            return None

    def list_statuses(self) -> list[EntryStatus]:
        statuses = []
        for name, files in self.list_files().items():
            if entry := self.read_entry(name):
                ended = self.read_end(name) if _ENDED in files else None
                status = ended.status if ended else self._find_status(name)
                statuses.append(EntryStatus(entry, status, ended))
        return sorted(
            statuses, key=lambda status: (status.entry.added, status.entry.name)
        )

    def _find_status(self, name: str) -> str:
        with self._translated():
            has_runner = is_held(self._open_objects(name))
        return RUNNING if has_runner or self.find_folder(name).is_driven else WAITING

    def find_folder(self, name: str) -> ExperimentFolder:
        """The experiment of an entry, which may not exist yet."""
        return ExperimentFolder(find_local_folder(self.storage) / name)

    def find_log(self, name: str) -> Path:
        return self._folder / name / "log.txt"

    def find_gpu_locks(self, machine: str) -> Path:
        """The folder of the locks by which searches on `machine` share its GPUs."""
        return self._folder / _RUNNERS / quote(machine, safe="") / "gpus"

    def write_spec(self, entry: Entry) -> str:
        """A file on this machine with the spec of an entry, for `tuner run`; raises OSError."""
        path = self._folder / entry.name / "spec.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda partial: partial.write_bytes(encode(entry.spec)))
        return str(path)

    def read_end(self, name: str) -> Ended | None:
        try:
            return self._read(name, _ENDED, Ended)
        except ValueError:
            return Ended(status=FAILED, why=f"{_ENDED} is damaged", time=0)

    def watch_entry(self, name: str) -> Watch:
        """Watches the lease of an entry, and takes it when it is free."""
        return Watch(self._open_objects(name))

    def watch_runner(self, machine: str) -> Watch:
        """The same for the lease of the one runner of a machine or cluster."""
        return Watch(self._open_objects(f"{_RUNNERS}/{quote(machine, safe='')}"))

    def has_begun(self, name: str) -> bool:
        """Whether the search of an entry was started before. Records that it starts now."""
        data = json.dumps({"time": time.time(), "nonce": uuid4().hex}).encode()
        with self._translated():
            return not self._objects.create(f"{name}/{_BEGUN}", data)

    def end(
        self, name: str, status: str, *, code: int | None = None, why: str = ""
    ) -> Ended:
        """Record how an entry has ended, unless that is recorded already."""
        ended = Ended(status=status, code=code, why=why, time=time.time())
        with self._translated():
            self._objects.create(
                f"{name}/{_ENDED}", ended.model_dump_json(indent=2).encode()
            )
        return ended

    def remove(self, name: str, *, warn: Callable[[str], object]) -> None:
        """Remove an entry; its experiment stays.

        Raises UsageError if there is none, or if it runs.
        """
        if self.read_entry(name) is None:
            names = ", ".join(sorted(self.list_files())) or "there are none"
            raise UsageError(
                f"no entry {name!r} in the queue of {self.storage}; entries: {names}"
            )
        with self._translated():
            lease = acquire_lease(self._open_objects(name), lambda: 0, warn=warn)
            if self.find_folder(name).is_driven:
                lease.release()
                raise UsageError(
                    f"the search of {name} runs: let it end or stop it first"
                )
            # First: from now on it is no entry
            self._objects.remove(f"{name}/{_ENTRY}")
            self._objects.remove(name)

    def _open_objects(self, name: str) -> Objects:
        return open_objects(f"{self.storage}/{FOLDER}/{name}")

    def _read(self, name: str, file: str, kind: type[_Kind]) -> _Kind | None:
        """The content of a file, or None if it is missing; raises ValueError if it is damaged."""
        with self._translated():
            try:
                data = self._objects.read(f"{name}/{file}")
            except FileNotFoundError:
                return None
        return kind.model_validate(parse_json(data))
