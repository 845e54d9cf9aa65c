"""The experiments of a storage, kept up to date: each is read again once its files have changed.

Whether they have is asked without reading them: of those that run at each look, of the others now
and then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tuner.errors import TunerError, UsageError, did_you_mean
from tuner.experiment.events import EXPERIMENT_STARTED, INTERRUPTED, RUNNING, Event
from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import ExperimentFolder, mark_here
from tuner.experiment.history import History, collector_paused
from tuner.experiment.reading import Tail
from tuner.experiment.results.described import Described
from tuner.experiment.results.listing import Listed, listed, oldest_first
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import trial_row
from tuner.experiment.steered import present
from tuner.experiment.storage import experiment_folders, storage_folder
from tuner.places import shown, url_of

T = TypeVar("T")

_AT_ONCE = 8  # that are read at a time from a store, which answers slowly
_BATCH = 24  # that are read before what is known so far is shown
_MOST_KEPT = 4  # experiments that do not run; all that they reported is in memory


class Followed(Results):
    """Results to which `update` adds what the journal has gained: no line is read twice.

    Several threads may ask: each holds `lock` while it does. Raises as `Results` does.
    """

    def __init__(self, folder: Path) -> None:
        Described.__init__(self, folder)
        self.lock = threading.RLock()
        self.version = 0  # of what is known; goes up with each change
        self._made: dict[str, Any] = {}
        self._seen: object = None
        self._begin()
        self.update()

    def update(self) -> None:
        """Take into account what has been written since; raises as `Results` does."""
        with self.lock:
            is_driven = self.files.is_driven  # first: a driver that ends meanwhile has said so
            state = self.files.mark(), is_driven
            if state == self._seen:
                return
            self.files.refresh()
            self._made.clear()
            for name in ("ranked", "labels", "spec"):  # cached properties
                self.__dict__.pop(name, None)
            self._catch_up(is_driven=is_driven)
            self._seen = state
            self.version += 1

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `trial_rows`; those of trials that have not changed are not made again."""
        for trial in self.trials.values():
            if trial.trial_id not in self._rows:
                self._rows[trial.trial_id] = trial_row(self, trial)
        return [self._rows[trial_id] for trial_id in self.trials]

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` returns, made once for as long as nothing changes."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def _begin(self) -> None:
        self._tail, self._size = Tail(self.folder), 0
        self._rows: dict[str, dict[str, Any]] = {}
        self.history = History(self.objective)

    def _catch_up(self, *, is_driven: bool) -> None:
        if self._has_shrunk():
            self._begin()
        events = self._apply()
        if is_driven and events and self._is_taken_for_dead:
            self._begin()
            self._apply()
        self.document = present(self.files.document(), self.history.steered.answers)
        if not is_driven and (self.status == RUNNING or self.counts[RUNNING]):
            self._rows.clear()
            self.history.interrupt()

    def _apply(self) -> list[Event]:
        with collector_paused():
            events = self._tail.read()
            for event in events:
                self.history.apply(event)
                if event["event"] == EXPERIMENT_STARTED:  # whatever ran is interrupted
                    self._rows.clear()
                self._rows.pop(event.get("trial_id", ""), None)
        ids = list(map(int, self.history.trials))
        if ids != sorted(ids):
            in_order = sorted(self.history.trials.items(), key=lambda item: int(item[0]))
            self.history.trials = dict(in_order)
        return events

    @property
    def _is_taken_for_dead(self) -> bool:
        """Whether its driver was taken for dead, as when it was about to begin."""
        return self.status == INTERRUPTED and self.history.ended is None

    def _has_shrunk(self) -> bool:
        """Whether the journal is not the one that was read: of a store, it may be replaced."""
        before, self._size = self._size, os.stat(self.folder / JOURNAL).st_size
        return self._size < before


class Kept:
    """The experiments that run, and those of the others that were asked for last."""

    def __init__(self) -> None:
        self._followed: dict[Path, Followed] = {}  # the last requested one at the end
        self._reading: dict[Path, threading.Lock] = {}
        self._changing = threading.Lock()

    def __contains__(self, folder: Path) -> bool:
        return folder in self._followed

    def get(self, folder: Path) -> Followed:
        """An experiment as it stands now; raises as `Results` does."""
        with self._changing:
            reading = self._reading.setdefault(folder, threading.Lock())
        with reading:
            if (followed := self._followed.get(folder)) is None:
                followed = Followed(folder)
            else:
                self.drop(folder)  # until it is known that it can be read
                followed.update()
            self._keep(folder, followed)
        return followed

    def drop(self, folder: Path) -> None:
        """Keep it no longer."""
        with self._changing:
            self._followed.pop(folder, None)

    def _keep(self, folder: Path, new: Followed) -> None:
        with self._changing:
            self._followed[folder] = new
            over = [known for known, each in self._followed.items() if each.status != RUNNING]
            for known in over[:-_MOST_KEPT]:
                del self._followed[known]


class UnknownNameError(UsageError):
    """An experiment, or a file of one, that is not there."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many seconds lie between two looks: at what runs, at all else, and for new folders."""

    running: float
    over: float
    new: float


HERE = Pace(running=1.0, over=5.0, new=5.0)
STORE = Pace(running=3.0, over=120.0, new=30.0)


@dataclass(slots=True)
class _Entry:
    """An experiment as it was when `mark` was its folder's; its mark is asked again at `due`."""

    listed: Listed
    json: dict[str, Any]
    mark: object
    due: float
    version: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What has changed: experiments, as `ls --json` has them, and the names of those gone.

    place: the storage. to_read: how many have not been read yet. problem: why the storage cannot be
    read, if so.
    """

    place: str
    listed: list[dict[str, Any]]
    gone: list[str]
    to_read: int
    problem: str

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "place": self.place,
            "listed": self.listed,
            "gone": self.gone,
            "to_read": self.to_read,
            "problem": self.problem,
        }


class Experiments:
    """Those of `storage`. Several threads may ask; one of them looks at a time."""

    def __init__(
        self, storage: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.version = 0  # of what is known; goes up with each change, and with the first look
        self._storage, self._clock = storage, clock
        root = storage_folder(storage)
        self.place = shown(root)
        self._is_remote = url_of(root) is not None
        self._pace = STORE if self._is_remote else HERE
        self._problem = ""
        self._entries: dict[str, _Entry] = {}
        self._gone: dict[str, int] = {}
        self._to_read: list[Path] = []
        self._names_due = 0.0
        self._kept = Kept()
        self._looking = threading.Lock()

    @property
    def every_s(self) -> float:
        """How often it is worth to look, in seconds."""
        return self._pace.running

    def look(self) -> bool:
        """Take into account what has changed; whether there is more that was not read yet."""
        with self._looking:
            now, problem = self._clock(), ""
            try:
                self._find(now)
                self._read_new(now)
                for entry in list(self._entries.values()):
                    if entry.due <= now:
                        self._ask(entry, now)
            except Exception as error:  # of any storage, until it answers again
                is_said = isinstance(error, TunerError)
                problem = str(error) if is_said else f"{self.place} cannot be read: {error}"
            if problem != self._problem or not self.version:
                self._problem = problem
                self.version += 1
            return bool(self._to_read) and not problem

    def all(self) -> list[Listed]:
        """Every experiment, as `list_experiments` gives them; UsageError if they cannot be read."""
        while self.look():
            pass
        if self._problem:
            raise UsageError(self._problem)
        return oldest_first(entry.listed for entry in list(self._entries.values()))

    def since(self, version: int) -> News:
        """What has changed since `version`; 0: everything."""
        changed = [e.json for e in list(self._entries.values()) if e.version > version]
        gone = [name for name, when in list(self._gone.items()) if when > version]
        return News(self.place, changed, gone, len(self._to_read), self._problem)

    def folder(self, name: str) -> Path:
        """The folder of an experiment; raises UnknownNameError if the storage has none of the name.

        It is looked up among those that were found, so that no name leads anywhere else.
        """
        if name not in self._entries:
            self._names_due = 0.0
            self.all()
        if name not in self._entries:
            hint = did_you_mean(name, list(self._entries))
            raise UnknownNameError(f"no experiment {name!r} in {self.place}{hint}")
        return self._entries[name].listed.folder

    def opened(self, name: str) -> Followed:
        """The results of an experiment as they stand now; raises as `folder` and `Results` do."""
        return self._kept.get(self.folder(name))

    def _find(self, now: float) -> None:
        """Notice new folders, and those that have gone."""
        if now < self._names_due:
            return
        folders = {f.name: f for f in experiment_folders(self._storage, known=self._entries)}
        for name in self._entries.keys() - folders.keys():
            self._kept.drop(self._entries.pop(name).listed.folder)
            self.version += 1
            self._gone[name] = self.version
        new = [folder for name, folder in folders.items() if name not in self._entries]
        self._to_read = sorted(new, key=_changed)  # the latest ones are read first, from the end
        self._names_due = now + self._pace.new

    def _read_new(self, now: float) -> None:
        batch = self._to_read[-_BATCH:]
        del self._to_read[-_BATCH:]
        if self._is_remote:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                entries = list(pool.map(lambda folder: self._read(folder, now), batch))
        else:
            entries = [self._read(folder, now) for folder in batch]
        for entry in entries:
            self._enter(entry)

    def _ask(self, entry: _Entry, now: float) -> None:
        folder, was_running = entry.listed.folder, entry.listed.status == RUNNING
        has_died = was_running and not ExperimentFolder(folder).is_driven
        if has_died or self._mark(folder) != entry.mark:
            self._enter(self._read(folder, now))
        else:
            entry.due = self._due(entry.listed, now)

    def _read(self, folder: Path, now: float) -> _Entry:
        mark = self._mark(folder)
        grows = folder in self._kept or ExperimentFolder(folder).is_driven
        row = listed(folder, self._kept.get) if grows else listed(folder)
        return _Entry(row, row.as_dict(), mark, self._due(row, now))

    def _mark(self, folder: Path) -> object:
        return ExperimentFolder(folder).mark() if self._is_remote else mark_here(folder)

    def _enter(self, entry: _Entry) -> None:
        self.version += 1
        entry.version = self.version
        self._gone.pop(entry.listed.name, None)
        self._entries[entry.listed.name] = entry

    def _due(self, row: Listed, now: float) -> float:
        return now + (self._pace.running if row.status == RUNNING else self._pace.over)


def _changed(folder: Path) -> float:
    """When the folder last changed; of a copy that is not here yet, never."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
