"""When a trial's checkpoint is written, and how: while it waits, or in a thread while it trains.

At a rung and at the end of a trial the checkpoint must exist. In between it only serves after a
kill: the trial waits for it if writing takes next to nothing of an epoch; otherwise a copy of the
state is written every few seconds while the trial trains. With every checkpoint the trial's best
epoch so far is journaled, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from tuner.experiment.trials import CheckpointRecord
from tuner.spec.sections import Objective
from tuner.trial.checkpoint_store import CheckpointStore
from tuner.trial.state import host_copy


class Save(StrEnum):
    """How the state after an epoch is saved."""

    NOW = "now"  # written before the epoch is reported
    BESIDE = "beside"  # copied, and written while the trial trains on
    HOLD = "hold"  # copied, and written with the next one that is


@dataclass(frozen=True, slots=True)
class SaveRules:
    """The rules for all trials of a search.

    every_s: seconds between two checkpoints that are written beside training. rungs: epochs after
    which a trial may be stopped. mode: the objective's. short_share: of an epoch; a write that is
    shorter is not worth a thread.
    """

    every_s: float = 5.0
    rungs: frozenset[int] = frozenset()
    mode: Literal["min", "max"] = "min"
    short_share: float = 0.02


class SavePolicy:
    """The choices for one trial, epoch by epoch.

    reported: the last epoch whose report is journaled when the trial begins. Epochs up to it run
    again, and the checkpoint of each is written at once.
    """

    def __init__(self, rules: SaveRules, *, reported: int = 0) -> None:
        self._rules = rules
        self._objective = Objective(mode=rules.mode)
        self._reported = reported
        self._best: float | None = None
        self._write_s = math.inf  # how long the last one took that was waited for
        self._began = -math.inf  # when the last one was begun

    def is_best(self, value: float) -> bool:
        """Record the epoch's value of the objective; returns whether it is the best so far."""
        if not self._objective.is_better(value, self._best):
            return False
        self._best = value
        return True

    def choose(
        self,
        epoch: int,
        *,
        is_best: bool,
        is_last: bool,
        epoch_s: float,
        is_writing: bool,
        now: float,
    ) -> Save | None:
        """How to save the state after `epoch`, or None for not at all.

        is_last: whether the trial ends with this epoch. epoch_s: seconds of training. is_writing:
        whether an earlier state is still being written. now: seconds of a monotonic clock.
        """
        is_cheap = self._write_s <= self._rules.short_share * epoch_s
        is_decided = is_last or epoch in self._rules.rungs or epoch <= self._reported
        if is_cheap or is_decided or self._write_s == math.inf:
            self._began = now
            return Save.NOW
        if not is_writing and now - self._began >= self._rules.every_s:
            self._began = now
            return Save.BESIDE
        return Save.HOLD if is_best else None

    def waited(self, seconds: float) -> None:
        """Record the seconds that the trial waited for a checkpoint."""
        self._write_s = seconds


State = dict[str, Any]


class CheckpointWriter:
    """Writes the checkpoints of one trial to its `store`.

    The best epoch is held in memory and written with the next checkpoint, so there are at most
    three copies of a state. An error of its thread is raised by the next call. copy: makes a copy
    of a state that no later epoch changes.
    """

    def __init__(self, store: CheckpointStore, copy: Callable[[State], State] = host_copy) -> None:
        self._store = store
        self._copy = copy
        self._held: tuple[int, State] | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[list[CheckpointRecord]] | None = None

    def save(self, epoch: int, state: State, how: Save, *, is_best: bool) -> list[CheckpointRecord]:
        """Save `state` as `how` says; returns the checkpoints written since the last call.

        The oldest checkpoint comes first. is_best: whether this is the trial's best epoch, so that
        the held state is dropped. A state that cannot be copied is written at once. Raises as
        `CheckpointStore.save` does.
        """
        if is_best:
            self._held = None
        copy = None if how is Save.NOW else self._copy_of(state)
        if copy is None:
            done = self.written(wait=True)
            self._begin(self._taken(epoch))  # two threads take half the time where cores are free
            newest = self._store.save(epoch, state)
            return [*done, *self.written(wait=True), newest]
        done = self.written(wait=how is Save.BESIDE)
        if how is Save.HOLD:
            self._held = (epoch, copy)
        else:
            self._begin([*self._taken(epoch), (epoch, copy)])
        return done

    def written(self, *, wait: bool = False) -> list[CheckpointRecord]:
        """The checkpoints written by its thread since the last call; wait: until it is done."""
        if self._writing is None or not (wait or self._writing.done()):
            return []
        writing, self._writing = self._writing, None
        return writing.result()

    def close(self) -> None:
        """Wait for the thread to end. The held state and an error of the thread are dropped."""
        self._held = self._writing = None
        self._threads.shutdown()

    def _taken(self, epoch: int) -> list[tuple[int, State]]:
        """Take the held state, unless it is that of `epoch`, which is written anyway."""
        held, self._held = self._held, None
        return [held] if held and held[0] != epoch else []

    def _begin(self, states: list[tuple[int, State]]) -> None:
        if states:
            self._writing = self._threads.submit(
                lambda: [self._store.save(epoch, state) for epoch, state in states]
            )

    def _copy_of(self, state: State) -> State | None:
        try:
            return self._copy(state)
        except Exception:  # no room, or a user's value: saving it raises the reason
            return None
