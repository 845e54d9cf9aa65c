"""The driver's side of control: what is asked of a search that runs is journaled, then done.

A thread looks for requests, so that a slow store holds up no decision. Tune's own thread answers
them, between two of its steps. Most of what was asked then follows from the experiment's history
alone, as it does after a resume.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Event
from typing import Any, Protocol

from ray.tune import Callback

from tuner import background, ray_compat
from tuner.errors import TunerError
from tuner.experiment.control import (
    Control,
    Finish,
    GoOn,
    Pause,
    Request,
    StopTrial,
    TryConfig,
    admitted,
    requested,
)
from tuner.experiment.events import CONTROL, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.steered import CHANGES
from tuner.planning.validation import ValidatedSpec

_EVERY_S = 1.0
_IDLE_S = 0.1  # a turn of Tune's loop while nothing runs
UNBOUNDED = 1_000_000  # trials at a time
_MAX_PENDING = "TUNE_MAX_PENDING_TRIALS_PG"


class Search(Protocol):
    """What steering changes of a search that runs."""

    spec: ValidatedSpec

    def emit(self, event: str, **fields: Any) -> None:
        """Journal an event."""

    def end(self, trial_id: str, status: str, *, control: str | None = None) -> None:
        """Journal the end of a trial."""

    def go_on_by(self, spec: ValidatedSpec) -> None:
        """Go on by this spec."""


class Steering(Callback):
    """Answers what is asked of a search, in Tune's thread, and says which trials are to leave.

    fits: how many trials may be live at the moment if nobody asks for fewer. comes_and_goes:
    whether that changes, as on a cluster whose nodes come and go: then only who asks for trials
    knows it.
    """

    def __init__(
        self,
        folder: ExperimentFolder,
        history: History,
        search: Search,
        *,
        fits: Callable[[], int],
        scheduler: Any,
        comes_and_goes: bool = False,
    ) -> None:
        self._folder, self._history, self._search = folder, history, search
        self._fits, self._scheduler = fits, scheduler
        self._inbox: SimpleQueue[Request] = SimpleQueue()
        self._seen = history.steered.ids
        self._leaving: dict[str, tuple[str, str]] = {}  # trial_id -> its status, and the control
        self.source: Any = None  # of trials, once there is one
        scheduler.leaves = self.leaves
        self._most_pending = UNBOUNDED if comes_and_goes else fits()
        # No more than can run: Tune would reserve a place for more, and start new workers there
        os.environ[_MAX_PENDING] = str(self._at_most(self._most_pending))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it requests are read; at its end what is left of them is refused."""
        with background.running(self._listen):
            yield
        with suppress(OSError):  # what cannot be read now, a resume answers
            self._read()
        while not self._inbox.empty():
            self._answer(self._inbox.get(), refused="the search has ended")

    def attend(self) -> None:
        """Answer what was asked since the last time."""
        while not self._inbox.empty():
            self._answer(self._inbox.get())

    def limit(self) -> int:
        """How many trials may be live now."""
        return 0 if self._history.steered.paused else self._at_most(self._fits())

    def spare(self) -> int | None:
        """How many workers may wait for a trial; None: any, since nobody has asked for fewer.

        None waits once no trial is left to be handed out: other searches may use what it holds.
        """
        if self.source is not None and self.source.is_whole:
            return 0
        steered = self._history.steered
        if not steered.paused and "max_concurrent" not in steered.changes:
            return None
        return max(0, self.limit() - (self.source.live if self.source else 0))

    def leaves(self, trial_id: str) -> bool:
        """Whether a trial that has reported is to leave: it is asked once, at each report."""
        steered = self._history.steered
        if stop := steered.stops.get(trial_id):
            self._leaving[trial_id] = (STOPPED, stop.id)
        elif steered.paused:
            self._leaving[trial_id] = (INTERRUPTED, steered.paused)
            self.source.held.add(trial_id)
        return trial_id in self._leaving

    def leaving(self, trial_id: str) -> tuple[str, str] | None:
        """Of a trial that has left as asked: the status that it gets, and the control's id."""
        return self._leaving.pop(trial_id, None)

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.attend()
        if self._history.steered.paused and not self._history.counts[RUNNING]:
            time.sleep(_IDLE_S)

    def _at_most(self, fits: int) -> int:
        return min(fits, self._search.spec.max_concurrent or fits)

    def _listen(self, over: Event) -> None:
        while True:
            with suppress(OSError):  # where that lasts, what keeps the storage in sync says so
                self._read()
            if over.wait(_EVERY_S):
                return

    def _read(self) -> None:
        for request in requested(self._folder, but=self._seen):
            self._seen.add(request.id)
            self._inbox.put(request)

    def _answer(self, request: Request, *, refused: str | None = None) -> None:
        control = request.control
        try:
            control = admitted(control, self._search.spec)
        except TunerError as error:
            refused = refused or str(error)
        refused = refused or self._why_not(control)
        fields: dict[str, Any] = {"id": request.id, "control": control.model_dump(mode="json")}
        if request.by:
            fields["by"] = request.by
        self._search.emit(CONTROL, **fields, **({"refused": refused} if refused else {}))
        if not refused:
            self._act(control)

    def _why_not(self, control: Control) -> str | None:
        """Why a control has nothing to act on now."""
        steered = self._history.steered
        if isinstance(control, StopTrial):
            trial = self._history.trials.get(control.trial_id)
            if trial is None or trial.status not in (RUNNING, INTERRUPTED):
                return "the trial has ended" if trial else "there is no such trial"
        if isinstance(control, Pause) and steered.paused:
            return "the search is paused already"
        if isinstance(control, GoOn) and not steered.paused:
            return "the search is not paused"
        if isinstance(control, Finish) and steered.finishing:
            return "the search is ending already"
        if isinstance(control, TryConfig) and steered.finishing:
            return "the search is ending, and starts no more trials"
        return None

    def _act(self, control: Control) -> None:
        """What the journal alone does not bring about."""
        field = CHANGES.get(control.verb)
        changed = {field: getattr(control, field)} if field else {}
        self._search.go_on_by(self._search.spec.model_copy(update=changed))
        if isinstance(control, StopTrial):
            self._stop_waiting(control.trial_id)
        if (controller := self._scheduler.controller) is not None:
            paused = self._history.steered.paused
            ray_compat.limit_pending(controller, 0 if paused else self._at_most(self._most_pending))

    def _stop_waiting(self, trial_id: str) -> None:
        """End a trial that has no place at the moment; one that has ends with its next report."""
        last = self._history.trials[trial_id].results[-1:]
        result = {**last[0].metrics, "training_iteration": last[0].epoch} if last else {}
        if self.source.drop(trial_id, result):
            self._search.end(trial_id, STOPPED, control=self._history.steered.stops[trial_id].id)
