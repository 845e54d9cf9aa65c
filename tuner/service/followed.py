"""Experiments that someone looks at, or that run: their results, kept up to date incrementally."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tuner.experiment.events import EXPERIMENT_STARTED, INTERRUPTED, RUNNING, Event
from tuner.experiment.files import JOURNAL
from tuner.experiment.history import History, collector_paused
from tuner.experiment.reading import Tail
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import trial_row
from tuner.experiment.steered import present

T = TypeVar("T")
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
        self._told: object = None
        self._begin()
        self.update()

    def update(self) -> None:
        """Take into account what has been written since; raises as `Results` does."""
        with self.lock:
            is_driven = self.files.is_driven  # first: a driver that ends meanwhile has said so
            told = self.files.mark(), is_driven
            if told == self._told:
                return
            self.files.refresh()
            self._made.clear()
            for name in ("ranked", "labels", "spec"):  # cached properties
                self.__dict__.pop(name, None)
            self._catch_up(is_driven=is_driven)
            self._told = told
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
        found: T = self._made[name]
        return found

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
        self._found: dict[Path, Followed] = {}  # the last asked for at the end
        self._reading: dict[Path, threading.Lock] = {}
        self._changing = threading.Lock()

    def __contains__(self, folder: Path) -> bool:
        return folder in self._found

    def get(self, folder: Path) -> Followed:
        """An experiment as it stands now; raises as `Results` does."""
        with self._changing:
            reading = self._reading.setdefault(folder, threading.Lock())
        with reading:
            if (found := self._found.get(folder)) is None:
                found = Followed(folder)
            else:
                self.drop(folder)  # until it is known that it can be read
                found.update()
            self._keep(folder, found)
        return found

    def drop(self, folder: Path) -> None:
        """Keep it no longer."""
        with self._changing:
            self._found.pop(folder, None)

    def _keep(self, folder: Path, new: Followed) -> None:
        with self._changing:
            self._found[folder] = new
            over = [known for known, one in self._found.items() if one.status != RUNNING]
            for known in over[:-_MOST_KEPT]:
                del self._found[known]
