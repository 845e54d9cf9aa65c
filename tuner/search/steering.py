"""The driver's side of control: each request to a search that runs is journaled, then done.

A thread looks for requests, so that a slow store holds up no decision. The driver's client answers
them, Tune's own thread between two of its steps. Most of it then follows from the
experiment's history alone, as it does after a resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Event
from typing import Any, Protocol

from tuner import process
from tuner.errors import TunerError
from tuner.experiment.control import Control, Request, admitted, requested
from tuner.experiment.events import CONTROL, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.verbs import VERBS
from tuner.search.schedulers._stopping import InOrder
from tuner.search.trial_queue import TrialQueue, last_result
from tuner.spec.validation import ValidatedSpec

_EVERY_S = 1.0
UNBOUNDED = 1_000_000  # trials at a time


class Search(Protocol):
    """The search that runs, as far as controls change it: its driver."""

    spec: ValidatedSpec
    folder: ExperimentFolder
    history: History
    scheduler: InOrder
    queue: TrialQueue

    def emit(self, event: str, **fields: Any) -> None:
        """Journal an event."""

    def end(self, trial_id: str, status: str, *, control: str | None = None) -> None:
        """Journal the end of a trial."""

    def go_on_by(self, spec: ValidatedSpec) -> None:
        """Go on by this spec."""


class Steering:
    """Answers requests for `driver`'s search.

    fits: how many trials fit at the moment, whatever max_concurrent says.
    """

    def __init__(self, driver: Search, *, fits: Callable[[], int]) -> None:
        self._driver, self._history, self._fits = driver, driver.history, fits
        self._inbox: SimpleQueue[Request] = SimpleQueue()
        self._seen = self._history.steered.ids
        self._leaving: dict[str, tuple[str, str]] = {}  # trial_id -> its status, and the control
        driver.scheduler.leaves = self.leaves

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it requests are read; at its end what is left of them is refused."""
        with process.running(self._listen):
            yield
        with suppress(OSError):  # what cannot be read now, a resume answers
            self._read()
        while not self._inbox.empty():
            self._answer(self._inbox.get(), refused="the search has ended")

    def attend(self) -> None:
        """Answer the requests since the last call."""
        while not self._inbox.empty():
            self._answer(self._inbox.get())

    def limit(self) -> int:
        """How many trials may be live now."""
        return 0 if self._history.steered.paused else self.at_most(self._fits())

    def spare(self) -> int | None:
        """How many workers may wait for a trial; None: any, since no control limits them.

        None waits once no trial is left to be handed out: other searches may use what it holds.
        """
        if self._driver.queue.is_empty:
            return 0
        steered = self._history.steered
        if not steered.paused and "max_concurrent" not in steered.changes:
            return None
        return max(0, self.limit() - len(self._driver.queue.live))

    def leaves(self, trial_id: str) -> bool:
        """Whether a trial that has reported is to leave by a user's request."""
        steered = self._history.steered
        if stop := steered.stops.get(trial_id):
            self._leaving[trial_id] = (STOPPED, stop.id)
        elif steered.paused:
            self._leaving[trial_id] = (INTERRUPTED, steered.paused)
            self._driver.queue.held.add(trial_id)
        return trial_id in self._leaving

    def leaving(self, trial_id: str) -> tuple[str, str] | None:
        """The status and the control's id of a trial that left by a user's request, or None."""
        return self._leaving.pop(trial_id, None)

    def at_most(self, fits: int) -> int:
        """How many trials may run at a time, of as many as fit."""
        return min(fits, self._driver.spec.max_concurrent or fits)

    def _listen(self, over: Event) -> None:
        while True:
            with suppress(OSError):  # where that lasts, what keeps the storage in sync says so
                self._read()
            if over.wait(_EVERY_S):
                return

    def _read(self) -> None:
        for request in requested(self._driver.folder, but=self._seen):
            self._seen.add(request.id)
            self._inbox.put(request)

    def _answer(self, request: Request, *, refused: str | None = None) -> None:
        control = request.control
        try:
            control = admitted(control, self._driver.spec)
        except TunerError as error:
            refused = refused or str(error)
        refused = refused or self._why_not(control)
        fields: dict[str, Any] = {"id": request.id, "control": control.model_dump(mode="json")}
        if request.by:
            fields["by"] = request.by
        self._driver.emit(CONTROL, **fields, **({"refused": refused} if refused else {}))
        if not refused:
            self._act(control)

    def _why_not(self, control: Control) -> str | None:
        """Why a control has nothing to act on now."""
        steered = self._history.steered
        match control.verb:
            case "stop-trial":
                trial = self._history.trials.get(control.value)
                if trial is None or trial.status not in (RUNNING, INTERRUPTED):
                    return "the trial has ended" if trial else "there is no such trial"
            case "pause" if steered.paused:
                return "the search is paused already"
            case "go-on" if not steered.paused:
                return "the search is not paused"
            case "finish" if steered.finishing:
                return "the search is ending already"
            case "try" if steered.finishing:
                return "the search is ending, and starts no more trials"
        return None

    def _act(self, control: Control) -> None:
        """What the journal alone does not bring about."""
        verb = VERBS[control.verb]
        changed = {verb.field: control.value} if verb.is_setting else {}
        self._driver.go_on_by(self._driver.spec.model_copy(update=changed))
        if control.verb == "stop-trial":
            self._stop_waiting(control.value)

    def _stop_waiting(self, trial_id: str) -> None:
        """End a trial that waits for a slot; one that runs ends with its next report."""
        if self._driver.queue.drop(trial_id, last_result(self._history.trials[trial_id])):
            self._driver.end(trial_id, STOPPED, control=self._history.steered.stops[trial_id].id)
