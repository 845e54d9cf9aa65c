"""Writes the checkpoints of a trial one by one: while it waits, or in a thread while it trains."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tuner.experiment.trials import CheckpointRecord
from tuner.trial.checkpoint_store import CheckpointStore
from tuner.trial.save_policy import Save
from tuner.trial.state import frozen_copy

State = dict[str, Any]


class CheckpointWriter:
    """The checkpoints of the trial whose `store` it is.

    One of the trial's best epoch is held in memory, and written with the next one that is. So there
    are at most three copies: two that are being written, and one that is held. What its thread
    raises is raised by whatever is called next. copy: makes a copy of a state that no later epoch
    changes.
    """

    def __init__(
        self, store: CheckpointStore, copy: Callable[[State], State] = frozen_copy
    ) -> None:
        self._store = store
        self._copy = copy
        self._held: tuple[int, State] | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[list[CheckpointRecord]] | None = None

    def save(self, epoch: int, state: State, how: Save, *, is_best: bool) -> list[CheckpointRecord]:
        """Do with `state` as `how` says; what was written since the last call, oldest first.

        is_best: whether it is the trial's best, so that the one that is held need not be written.
        A state of which there is no copy is written at once. Raises as `CheckpointStore.save`.
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
        """What its thread has written since this was last asked; wait: until it has."""
        if self._writing is None or not (wait or self._writing.done()):
            return []
        writing, self._writing = self._writing, None
        return writing.result()

    def close(self) -> None:
        """Return when its thread has ended; what it holds is dropped, and so is what it raised."""
        self._held = self._writing = None
        self._threads.shutdown()

    def _taken(self, epoch: int) -> list[tuple[int, State]]:
        """What was held, unless it is of the `epoch` that is written anyway; it no longer is."""
        held, self._held = self._held, None
        return [held] if held and held[0] != epoch else []

    def _begin(self, states: list[tuple[int, State]]) -> None:
        if states:
            self._writing = self._threads.submit(self._write, states)

    def _write(self, states: list[tuple[int, State]]) -> list[CheckpointRecord]:
        return [self._store.save(epoch, state) for epoch, state in states]

    def _copy_of(self, state: State) -> State | None:
        try:
            return self._copy(state)
        except Exception:  # no room, or whatever a user's value raises: to save it tells why
            return None
