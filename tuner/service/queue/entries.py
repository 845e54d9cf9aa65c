"""The entries of a queue: files in the storage, below `.queue/NAME/`, of searches to be run.

    entry.json   created once: what is to run, for whom, and where it was added
    lock/        the lease of the runner that has it, as a driver has that of its experiment
    begun.json   created before its search is started for the first time
    ended.json   created once: how it ended
    spec.json    the spec alone, and
    log.txt      what its search said, both on the machine that ran it

`.queue/.runners/PLACE/lock/` is the lease of the one runner of a machine or cluster, and `gpus/`
beside it has the locks of a machine's GPUs.

An entry's name is its experiment's, so that no name is taken twice. Whoever acts on an entry holds
its lease.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tuner.errors import StorageError, UsageError, translate_error
from tuner.experiment.files import encode, replace_file
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote.lease import Watch, acquire, is_held
from tuner.experiment.remote.objects import Objects, objects_in
from tuner.places import is_url, local
from tuner.settings import Settings
from tuner.spec.by_value import is_by_value
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.notify import is_hidden
from tuner.spec.plain_values import parse_json
from tuner.wording import program

FOLDER = ".queue"
_ENTRY, _BEGUN, _ENDED = "entry.json", "begun.json", "ended.json"
_LOCKS, _RUNNERS = "lock/", ".runners"
_SPEC, _LOG = "spec.json", "log.txt"

ERROR = "error: "  # how the command line begins what it ends with
WAITING, RUNNING = "waiting", "running"
COMPLETED, FAILED, INTERRUPTED = "completed", "failed", "interrupted"


class Entry(Settings):
    """A search that was added.

    name: its experiment's. added: when, in seconds since the epoch. directory: where it was added,
    and is started. paths: where else Python finds its modules. spec: the plain values of the whole
    spec, as it was then.
    """

    name: str
    user: str
    added: float
    directory: str
    paths: tuple[str, ...] = ()
    spec: dict[str, Any]


def entry_of(
    spec: ExperimentSpec, *, user: str, directory: str, paths: Sequence[str] = ()
) -> Entry:
    """The entry of a spec that is known to work.

    Raises UsageError for one that no other process can run as it is.
    """
    if is_by_value(spec.trainable):
        raise UsageError(f"{spec.trainable} is of a script or a notebook: give it a module to wait")
    plain = spec.model_dump(mode="json")
    if kept_back := [target for target in plain["notify"] if is_hidden(target)]:
        raise UsageError(
            f"notify: the rest of {kept_back[0]} may be a secret, which is not written into the "
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
    """How an entry ended: its status, its search's exit code (None: not known), and why, where it
    is not `completed`: some lines of the search's log, from its error on or the last ones.
    """

    status: str
    code: int | None = None
    why: str = ""
    time: float

    @property
    def reason(self) -> str:
        """The line of `why` that says most."""
        first, _, rest = self.why.partition("\n")
        return first if first.startswith(ERROR) else (rest or first).rpartition("\n")[2]


class Open(NamedTuple):
    """An entry that has not ended: whether its search was begun, and a runner ever had it."""

    begun: bool
    claimed: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """An entry as it stands; ended: None until it has."""

    entry: Entry
    status: str
    ended: Ended | None = None

    def as_dict(self) -> dict[str, Any]:
        """As `queue ls --json` has it."""
        entry, ended = self.entry, self.ended
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
    """The entries in a storage: a folder, or a URL.

    Raises StorageError where that cannot be read or written.
    """

    def __init__(self, storage: str) -> None:
        if not is_url(storage):
            storage = str(local(storage).absolute())
        self.storage = storage.rstrip("/")
        self._place = f"{self.storage}/{FOLDER}"
        self._objects = objects_in(self._place)
        self._asked = partial(
            translate_error, StorageError, f"cannot use the queue in {storage}", of=OSError
        )

    def add(self, entry: Entry, *, is_named: bool = True) -> str:
        """Add an entry; returns its name: another one where it is taken, unless `is_named`.

        Raises UsageError where the name is taken that was given.
        """
        name, number = entry.name, 1
        while not self._create(entry):
            if is_named:
                raise UsageError(
                    f"the queue of {self.storage} has an entry {name!r}: give another name, or "
                    f"take it out by: {program()} queue rm {shlex.quote(name)}"
                )
            number += 1
            spec = {**entry.spec, "name": f"{name}-{number}"}
            entry = entry.model_copy(update={"name": f"{name}-{number}", "spec": spec})
        return entry.name

    def _create(self, entry: Entry) -> bool:
        with self._asked():
            self._objects.check_create()
            if self.experiment(entry.name).is_taken:
                return False
            data = entry.model_dump_json(indent=2).encode()
            return self._objects.create(f"{entry.name}/{_ENTRY}", data)

    def names(self) -> dict[str, set[str]]:
        """The files of each entry, by its name."""
        found: dict[str, set[str]] = {}
        with self._asked():
            for path in self._objects.names():
                name, _, file = path.partition("/")
                found.setdefault(name, set()).add(file)
        return {name: files for name, files in found.items() if _ENTRY in files}

    def open(self) -> dict[str, Open]:
        """The entries that have not ended, by name."""
        return {
            name: Open(_BEGUN in files, any(file.startswith(_LOCKS) for file in files))
            for name, files in self.names().items()
            if _ENDED not in files
        }

    def entry(self, name: str) -> Entry | None:
        """The entry of this name; None where there is none that can be read."""
        data = self._bytes(name, _ENTRY)
        try:
            return None if data is None else Entry.model_validate(parse_json(data))
        except ValueError:
            return None

    def standings(self) -> list[Standing]:
        """All entries as they stand, the oldest first."""
        found = []
        for name, files in self.names().items():
            if entry := self.entry(name):
                ended = self.ended(name) if _ENDED in files else None
                found.append(Standing(entry, ended.status if ended else self._status(name), ended))
        return sorted(found, key=lambda one: (one.entry.added, one.entry.name))

    def _status(self, name: str) -> str:
        with self._asked():
            is_run = is_held(self._of(name))
        return RUNNING if is_run or self.experiment(name).is_driven else WAITING

    def experiment(self, name: str) -> ExperimentFolder:
        """The experiment of an entry, which need not exist yet."""
        return ExperimentFolder(local(self.storage) / name)

    def log(self, name: str) -> Path:
        """Where this machine keeps what the search of an entry says."""
        return local(self.storage) / FOLDER / name / _LOG

    def gpus(self, machine: str) -> Path:
        """Where the searches of this `machine` that share its GPUs lock them."""
        return local(self.storage) / FOLDER / _RUNNERS / quote(machine, safe="") / "gpus"

    def spec_file(self, entry: Entry) -> str:
        """A file of this machine with the spec of an entry, for `tuner run`; raises OSError."""
        path = self.log(entry.name).with_name(_SPEC)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda partial: partial.write_bytes(encode(entry.spec)))
        return str(path)

    def ended(self, name: str) -> Ended | None:
        """How an entry has ended; None where it has not."""
        data = self._bytes(name, _ENDED)
        try:
            return None if data is None else Ended.model_validate(parse_json(data))
        except ValueError:
            return Ended(status=FAILED, why=f"{_ENDED} is damaged", time=0)

    def watch(self, name: str) -> Watch:
        """Looks whether the lease of an entry is free, and takes it."""
        return Watch(self._of(name))

    def watch_runner(self, place: str) -> Watch:
        """The same for the lease of the one runner that a machine or cluster, `place`, has."""
        return Watch(self._of(f"{_RUNNERS}/{quote(place, safe='')}"))

    def has_begun(self, name: str) -> bool:
        """Whether the search of an entry was started before; else it counts as started from now."""
        data = json.dumps({"time": time.time()}).encode()
        with self._asked():
            return not self._objects.create(f"{name}/{_BEGUN}", data)

    def end(self, name: str, status: str, *, code: int | None = None, why: str = "") -> Ended:
        """Say how an entry has ended: what is said first counts. Returns what is said."""
        ended = Ended(status=status, code=code, why=why, time=time.time())
        with self._asked():
            self._objects.create(f"{name}/{_ENDED}", ended.model_dump_json(indent=2).encode())
        return ended

    def remove(self, name: str, *, warn: Callable[[str], object]) -> None:
        """Remove an entry that does not run; its experiment stays.

        Raises UsageError where there is none, or it runs.
        """
        if self.entry(name) is None:
            known = ", ".join(sorted(self.names())) or "there are none"
            raise UsageError(f"no entry {name!r} in the queue of {self.storage}; entries: {known}")
        with self._asked():
            lease = acquire(self._of(name), lambda: 0, warn=warn)
            if self.experiment(name).is_driven:
                lease.release()
                raise UsageError(f"the search of {name} runs: let it end or stop it first")
            self._objects.remove(f"{name}/{_ENTRY}")  # first: from now on it is no entry
            self._objects.remove(name)

    def _of(self, name: str) -> Objects:
        return objects_in(f"{self._place}/{name}")

    def _bytes(self, name: str, file: str) -> bytes | None:
        with self._asked():
            try:
                return self._objects.read(f"{name}/{file}")
            except FileNotFoundError:
                return None
