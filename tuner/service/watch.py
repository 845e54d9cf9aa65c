"""The experiments of a storage, kept up to date: each is read again after its files have changed.

A look at the files, without reading them, shows that: at running experiments each time, at the
others now and then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuner.errors import TunerError, UsageError, suggest_similar
from tuner.experiment.events import RUNNING
from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import ExperimentFolder, compute_local_fingerprint
from tuner.experiment.history import History, pause_collector
from tuner.experiment.reading import Tail
from tuner.experiment.results.accuracy import VALIDATION
from tuner.experiment.results.described import Described
from tuner.experiment.results.listing import (
    Listed,
    sort_oldest_first,
    summarize_experiment,
)
from tuner.experiment.results.results import Results
from tuner.experiment.results.trial_rows import build_trial_row
from tuner.experiment.storage import find_experiment_folders, resolve_storage
from tuner.experiment.trials import TrialRecord
from tuner.places import find_url, format_path
from tuner.reporting.experiment_tables import describe_listed
from tuner.spec.sections import Objective

_AT_ONCE = 8  # experiments that are read in parallel from a store, which answers slowly
_BATCH = 24  # experiments that are read before the first are shown
_MOST_KEPT = 4  # experiments in memory that do not run
# By trial_id, with what they are made of
_Rows = dict[str, tuple[TrialRecord, dict[str, Any]]]


class Followed(Results):
    """The results that a follower has read. version: increases with each change."""

    def __init__(self, follower: Follower, *, is_driven: bool) -> None:
        Described.__init__(self, follower.folder)
        history = follower.read_history(self.objective, self.document.get(VALIDATION))
        self.version = follower.version
        self._rows = follower.rows
        self._set_history(history, is_driven=is_driven)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `build_trial_rows`. Only rows of changed trials are made again."""
        rows = []
        for trial in self.trials.values():
            made = self._rows.get(trial.trial_id)
            if made is None or made[0] is not trial:
                made = self._rows[trial.trial_id] = trial, build_trial_row(self, trial)
            rows.append(made[1])
        return rows


class Follower:
    """Reads an experiment again and again, but no line of its journal twice.

    latest: what was read last. rows: of the trials in it. Raises as `Results` does.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self.rows: _Rows = {}
        self._seen: object = None
        self._size = 0
        self.latest = self.read()

    def read(self) -> Followed:
        """The results as they are now; the latest ones if nothing has changed."""
        files = ExperimentFolder(self.folder)
        is_driven = files.is_driven  # first: a driver that ends meanwhile has said so
        seen = files.compute_fingerprint(), is_driven
        if seen != self._seen:
            self.latest = Followed(self, is_driven=is_driven)
            self._seen = seen
        return self.latest

    def read_history(self, objective: Objective, images: object) -> History:
        """What the journal says now, of the experiment's next version."""
        size = os.stat(self.folder / JOURNAL).st_size
        if size < self._size or not self.version:
            # The local copy of a store's may be replaced
            self._tail = Tail(self.folder)
            self._history = History(objective, images=images)
        self._size = size
        begun = len(self._history.trials)
        with pause_collector():
            for event in self._tail.read():
                self._history.apply(event)
        if len(self._history.trials) > begun:
            self._history.sort_trials()
        self.version += 1
        return self._history.copy()


class UnknownNameError(UsageError):
    """An unknown experiment or trial."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two looks: at running experiments, at the others, and for new folders."""

    running: float
    over: float
    new: float


HERE = Pace(running=1.0, over=5.0, new=5.0)
STORE = Pace(running=3.0, over=120.0, new=30.0)


@dataclass(slots=True)
class _Entry:
    """An experiment as read when its folder had this `mark`; `due`: the time of the next look."""

    listed: Listed
    json: dict[str, Any]
    mark: object
    due: float
    version: int = 0


class Experiments:
    """The experiments of a storage. Thread-safe; one thread looks at a time."""

    def __init__(
        self,
        storage: str | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        batch: int = _BATCH,
        pace: Pace | None = None,
        list_one: Callable[..., Listed] = summarize_experiment,
    ) -> None:
        self._batch = batch
        self._list_one = list_one
        self.version = 0  # increases with each change, and with the first look
        self._storage = storage
        self._clock = clock
        root = resolve_storage(storage)
        self.place = format_path(root)
        self._is_remote = find_url(root) is not None
        self.pace = pace or (STORE if self._is_remote else HERE)
        self._problem = ""
        self._entries: dict[str, _Entry] = {}
        self._gone: dict[str, int] = {}
        self._to_read: list[Path] = []
        self._names_due = 0.0
        # Those that run, and the last requested ones of the others; the latest is at the end
        self._followers: dict[Path, Follower] = {}
        self._following = threading.Lock()
        self._looking = threading.Lock()

    def refresh(self) -> bool:
        """Read what has changed; whether there is more to read."""
        with self._looking:
            now = self._clock()
            problem = ""
            try:
                self._find(now)
                self._read_new(now)
                for entry in list(self._entries.values()):
                    if entry.due <= now:
                        self._ask(entry, now)
            except Exception as error:
                # Storages raise many kinds; the next look tries again
                is_ours = isinstance(error, TunerError)
                problem = (
                    str(error) if is_ours else f"{self.place} cannot be read: {error}"
                )
            if problem != self._problem or not self.version:
                self._problem = problem
                self.version += 1
            return bool(self._to_read) and not problem

    def list_experiments(self) -> list[Listed]:
        """Every experiment, as `list_experiments` gives them; UsageError if they cannot be read."""
        while self.refresh():
            pass
        if self._problem:
            raise UsageError(self._problem)
        return sort_oldest_first(entry.listed for entry in list(self._entries.values()))

    def list_changes(self, version: int) -> dict[str, Any]:
        """The changes since `version`, as plain values; 0: everything.

        is_all: whether that is everything. place: the storage. listed: experiments as `ls --json`
        has them, with their `words`. gone: names. to_read: the number of experiments not read yet.
        problem: why the storage cannot be read, or "".
        """
        return {
            "is_all": not version,
            "place": self.place,
            "listed": [
                e.json for e in list(self._entries.values()) if e.version > version
            ],
            "gone": [name for name, when in list(self._gone.items()) if when > version],
            "to_read": len(self._to_read),
            "problem": self._problem,
        }

    def find_folder(self, name: str) -> Path:
        """The folder of an experiment, or UnknownNameError.

        Only folders that were listed are returned, so that no name leads out of the storage.
        """
        if name not in self._entries:
            self._names_due = 0.0
            self.list_experiments()
        if name not in self._entries:
            hint = suggest_similar(name, list(self._entries))
            raise UnknownNameError(f"no experiment {name!r} in {self.place}{hint}")
        return self._entries[name].listed.folder

    def open_experiment(self, name: str) -> Followed:
        return self._follow_folder(self.find_folder(name))

    def _follow_folder(self, folder: Path) -> Followed:
        with self._following:
            follower = self._followers.pop(folder, None) or Follower(folder)
            results = follower.read()
            self._followers[folder] = follower
            over = [
                p
                for p, each in self._followers.items()
                if each.latest.status != RUNNING
            ]
            for path in over[:-_MOST_KEPT]:
                del self._followers[path]
        return results

    def _find(self, now: float) -> None:
        """Notice new folders, and those that have gone."""
        if now < self._names_due:
            return
        folders = {
            f.name: f
            for f in find_experiment_folders(self._storage, trusted=self._entries)
        }
        for name in self._entries.keys() - folders.keys():
            with self._following:
                self._followers.pop(self._entries.pop(name).listed.folder, None)
            self.version += 1
            self._gone[name] = self.version
        new = [folder for name, folder in folders.items() if name not in self._entries]
        self._to_read = sorted(
            new, key=_read_change_time
        )  # the latest ones are read first, from the end
        self._names_due = now + self.pace.new

    def _read_new(self, now: float) -> None:
        batch = self._to_read[-self._batch :]
        del self._to_read[-self._batch :]
        with ThreadPoolExecutor(_AT_ONCE if self._is_remote else 1) as pool:
            for entry in pool.map(lambda folder: self._read(folder, now), batch):
                self._record_entry(entry)

    def _ask(self, entry: _Entry, now: float) -> None:
        folder = entry.listed.folder
        was_running = entry.listed.status == RUNNING
        has_died = was_running and not ExperimentFolder(folder).is_driven
        if has_died or self._read_mark(folder) != entry.mark:
            self._record_entry(self._read(folder, now))
        else:
            entry.due = self._compute_due(entry.listed, now)

    def _read(self, folder: Path, now: float) -> _Entry:
        mark = self._read_mark(folder)
        grows = folder in self._followers or ExperimentFolder(folder).is_driven
        row = self._list_one(folder, *((self._follow_folder,) if grows else ()))
        document = {**row.as_dict(), "words": describe_listed(row)}
        return _Entry(row, document, mark, self._compute_due(row, now))

    def _read_mark(self, folder: Path) -> object:
        return (
            ExperimentFolder(folder).compute_fingerprint()
            if self._is_remote
            else compute_local_fingerprint(folder)
        )

    def _record_entry(self, entry: _Entry) -> None:
        self.version += 1
        entry.version = self.version
        self._gone.pop(entry.listed.name, None)
        self._entries[entry.listed.name] = entry

    def _compute_due(self, row: Listed, now: float) -> float:
        return now + (self.pace.running if row.status == RUNNING else self.pace.over)


def _read_change_time(folder: Path) -> float:
    """When the folder last changed; 0 for a local copy that does not exist yet."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
