"""The core of a search, for Ray Tune and AskTell: records each report before it acts."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

from tuner.errors import ExperimentError, JournalError, TunerError, describe_error
from tuner.experiment import events
from tuner.experiment.changes import Lengths
from tuner.experiment.control import Control, Request, read_requests, validate_control
from tuner.experiment.folder import ExperimentFolder, Sync
from tuner.experiment.history import History, pause_collector
from tuner.experiment.journal import Clock, Journal
from tuner.experiment.owner import build_owner
from tuner.experiment.results.accuracy import VALIDATION
from tuner.experiment.steered import REQUESTED
from tuner.experiment.trials import TrialRecord
from tuner.experiment.verbs import VERBS
from tuner.search.preparation import Plan
from tuner.search.replay import (
    find_last_result,
    list_unfinished,
    replay_end,
    replay_events,
    replay_trials,
    sort_unfinished,
)
from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
from tuner.search.stopping import EarlyEnd, StopRequest, describe_end, estimate_refit_s
from tuner.search.trial_queue import TrialQueue
from tuner.search.warm_start import WarmStart, load_warm_start
from tuner.spec.experiment import ExperimentSpec
from tuner.threads import run_in_thread
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure

_log = logging.getLogger(__name__)
UNBOUNDED = 1_000_000  # trials at a time
_EVERY_S = 1.0  # between two reads of requests


class Driver:
    """Drives one experiment, from its start or resume to its end.

    Each event goes to the journal, `history`, then the `observers`. error: why the journal or
    storage failed; the client then ends the search. on_change: called when a control has changed
    `spec`. has_grown: whether a resume has widened the search space.
    """

    scheduler: InOrder
    searcher: Any
    steering: Steering
    queue: TrialQueue
    sync: Sync

    def __init__(
        self,
        plan: Plan,
        folder: ExperimentFolder,
        journal: Journal,
        *,
        retry_failed: bool = False,
        lengths: Lengths | None = None,
        has_grown: bool = False,
    ) -> None:
        self.spec = spec = plan.spec
        self.folder = folder
        self.journal = journal
        self.retry_failed = retry_failed
        self.lengths = lengths or Lengths(spec.epochs)
        self._has_grown = has_grown
        kept = [spec.objective.metric, *spec.objective.required]
        images = folder.read_document().get(VALIDATION)
        self.history = History(spec.objective, metrics=kept, images=images)
        self.stop = StopRequest(
            spec.time_budget_s,
            reserved_s=lambda: estimate_refit_s(self.spec, self.history),
        )
        self.error: ExperimentError | None = None
        self.observers: list[Callable[[events.Event], object]] = []
        self.on_change: Callable[[], object] = lambda: None
        self.spent_s = 0.0  # of the time budget, by earlier drivers
        self._early_end = EarlyEnd(
            spec.stop, spec.objective, self.history, spec.search.space
        )
        self.plan = replace(plan, warm_start=load_warm_start(spec))
        self.skipped = self.plan.skipped

    @classmethod
    @contextmanager
    def open(
        cls,
        plan: Plan,
        folder: ExperimentFolder,
        *,
        clock: Clock | None = None,
        **how: Any,
    ) -> Iterator[Driver]:
        """The only driver of an experiment. Raises as `open_storage` and `Journal.open`."""
        with (
            folder.open_storage(_log.warning) as sync,
            Journal.open(folder.path, clock=clock) as journal,
        ):
            driver = cls(plan, folder, journal, **how)
            driver.sync = sync
            yield driver

    @property
    def total(self) -> int | None:
        """How many trials the searcher gives; None where only the time budget ends the search."""
        return self.spec.count_trials(self.skipped)

    def restore(self) -> None:
        """Replay the journal into history, scheduler and searcher."""
        spec = self.spec
        self.scheduler = build_scheduler(spec)
        journaled = self.journal.read_earlier()
        metric = spec.objective.metric
        earlier = replay_events(
            journaled, self.history, self.scheduler, metric, self.lengths
        )
        self.searcher = build_searcher(spec, earlier, self.plan.warm_start)
        # A resume of a search without a usable trial runs the failed ones again
        self.retry_failed |= (
            self.history.status == events.FAILED and self.history.best is None
        )
        if (
            self._has_grown
            and spec.search.skips
            and spec.search.trials(None) is not None
        ):
            self._skip_begun()

    def record_search_start(self, *, resumed: bool) -> None:
        self.emit(events.EXPERIMENT_STARTED, resumed=resumed, owner=build_owner())

    def iterate_unfinished(self, *, runs_on: bool = False) -> Iterator[TrialRecord]:
        """Trials to continue, in order; journals ends. runs_on: past their last epoch."""
        if self.retry_failed:
            # Journaled, in case this driver is killed before they go on
            self.interrupt(events.FAILED)
        for trial in sort_unfinished(
            list_unfinished(self.history), self.lengths, self.spec.objective
        ):
            if self._end_if_over(trial, runs_on=runs_on):
                replay_end(self.searcher, trial)
            else:
                yield trial

    def begin(self, trials: Iterable[Assignment], *, fits: Callable[[], int]) -> None:
        """Hand out `trials`, then the searcher's. fits: how many trials fit now."""
        self.steering = Steering(self, fits=fits)
        self.queue = TrialQueue(
            self.searcher,
            self.history,
            total=self.total,
            limit=self.steering.count_slots,
            unfinished=trials,
            seed=self.spec.seed
            if self.plan.declaration.has_trial_seeds(self.spec)
            else None,
        )
        self.apply_spec(self.spec)

    def apply_spec(self, spec: ExperimentSpec) -> None:
        """Go on with another time budget, or number of trials, at a time or in total."""
        self.spec = spec
        self.queue.total = self.total
        self.queue.at_end = False
        budget_s = spec.time_budget_s
        self.stop.time_budget_s = (
            None if budget_s is None else max(budget_s - self.spent_s, 0.0)
        )
        self.on_change()

    def is_over(self) -> bool:
        """Whether the search ends now, even while trials run."""
        self.stop.reason = self._early_end.find_reason(self.journal.clock())
        return self.stop.requested or self.error is not None

    def record_search_end(self, status: str) -> None:
        """Journal the end of the search, with a summary; a completed search may have failed."""
        self.interrupt(events.RUNNING)
        is_completed = status == events.COMPLETED
        end = (
            describe_end(self.total, self.history, self.stop)
            if is_completed
            else {"status": status}
        )
        self.emit(events.EXPERIMENT_ENDED, **end, **self.history.summarize(self.total))

    def emit(self, event: str, **fields: Any) -> None:
        """Journal one event, then notify the observers."""
        if self.error is not None:
            return
        try:
            record = self.journal.append(event, **fields)
        except JournalError as error:
            self.error = error
            return
        self.history.apply(record)
        self._early_end(record)
        for observer in self.observers:
            observer(record)

    def start(self, trial_id: str, config: dict[str, Any], **details: Any) -> None:
        """Journal that a trial runs, unless it does already; details that are None are left out."""
        trial = self.history.trials.get(trial_id)
        if trial is None or trial.status != events.RUNNING:
            fields = {
                name: value for name, value in details.items() if value is not None
            }
            self.emit(events.TRIAL_STARTED, trial_id=trial_id, config=config, **fields)

    def end(
        self,
        trial_id: str,
        status: str,
        failure: Failure | None = None,
        *,
        control: str | None = None,
        done: bool = False,
    ) -> None:
        """Journal a trial's end. control: the id of its control. done: ignore a longer limit."""
        fields: dict[str, Any] = {"control": control} if control else {}
        if done:
            fields["done"] = True
        if failure:
            fields["error"] = {"kind": failure.kind, "message": failure.message}
        self.emit(events.TRIAL_ENDED, trial_id=trial_id, status=status, **fields)

    def interrupt(self, status: str) -> None:
        """Journal that the trials of this status are interrupted."""
        for trial in sorted(
            self.history.list_by_status(status), key=lambda t: t.trial_id
        ):
            self.end(trial.trial_id, events.INTERRUPTED)

    def _skip_begun(self) -> None:
        """Skip the configs that have begun: a space that has grown has another order."""
        begun = [
            trial for trial in self.history.trials.values() if trial.origin != REQUESTED
        ]
        for trial in begun:
            self.searcher.pass_over(trial.trial_id)
        self.searcher.skip(trial.config for trial in begun)
        outside = sum(not self.spec.search.can_suggest(trial.config) for trial in begun)
        self.skipped -= outside

    def _end_if_over(self, trial: TrialRecord, *, runs_on: bool) -> bool:
        """End a trial whose driver was killed before it could."""
        epochs = self.spec.epochs
        is_whole = epochs is not None and trial.last_epoch >= epochs
        if trial.done or (is_whole and not runs_on):
            self.end(trial.trial_id, events.COMPLETED, done=trial.done)
        elif stop := self.history.steered.stops.get(trial.trial_id):
            self.end(trial.trial_id, events.STOPPED, control=stop.id)
        elif trial.trial_id in self.scheduler.stopped and not is_whole:
            self.end(trial.trial_id, events.STOPPED)
        else:
            return False
        return True


def build_scheduler(spec: ExperimentSpec) -> InOrder:
    """The scheduler of `spec`; by default one that stops no trial."""
    epochs = spec.stop.patience_epochs
    if spec.scheduler is None:
        return (
            StoppingScheduler(spec.objective, Patience(epochs)) if epochs else InOrder()
        )
    scheduler: StoppingScheduler = spec.scheduler.build(
        spec.objective, brackets=spec.brackets
    )
    if epochs is not None:
        scheduler.rules.append(Patience(epochs))
    return scheduler


def build_searcher(
    spec: ExperimentSpec,
    earlier: Iterator[events.Event],
    warm_start: WarmStart | None,
) -> Any:
    """The searcher of `spec`, after the warm start and all `earlier` events."""
    searcher = spec.search.build(spec.seed, objective=spec.objective, max_t=spec.epochs)
    if warm_start:
        warm_start.apply(searcher)
    with pause_collector():
        replay_trials(searcher, earlier)
        deque(earlier, maxlen=0)
    return searcher


class Steering:
    """Journals and carries out control requests.

    A thread reads them, so that a slow store delays nothing; the driver's client calls
    `answer_requests`. fits: how many trials fit now.
    """

    def __init__(self, driver: Driver, *, fits: Callable[[], int]) -> None:
        self._driver = driver
        self._history = driver.history
        self._fits = fits
        self._inbox: SimpleQueue[Request] = SimpleQueue()
        self._seen = self._history.steered.ids
        # trial_id -> its status, and the control
        self._leaving: dict[str, tuple[str, str]] = {}
        driver.scheduler.leaves = self.should_end

    @contextmanager
    def receive_requests(self) -> Iterator[None]:
        """Within it requests are read; at its end what is left of them is refused."""
        with run_in_thread(self._poll_requests):
            yield
        self._read()
        self.answer_requests(refused="the search has ended")

    def answer_requests(self, *, refused: str | None = None) -> None:
        """Answer the requests since the last call. refused: why none is carried out, if so."""
        while not self._inbox.empty():
            self._answer_request(self._inbox.get(), refused)

    def count_slots(self) -> int:
        return (
            0
            if self._history.steered.paused
            else self.apply_max_concurrent(self._fits())
        )

    def count_spare_workers(self) -> int | None:
        """How many workers may wait for a trial; None: any."""
        if self._driver.queue.is_empty:
            return 0
        steered = self._history.steered
        if not steered.paused and "max_concurrent" not in steered.changes:
            return None
        return max(0, self.count_slots() - len(self._driver.queue.live))

    def should_end(self, trial_id: str) -> bool:
        """Whether a user's request ends a trial that has reported."""
        steered = self._history.steered
        if stop := steered.stops.get(trial_id):
            self._leaving[trial_id] = (events.STOPPED, stop.id)
        elif steered.paused:
            self._leaving[trial_id] = (events.INTERRUPTED, steered.paused)
            self._driver.queue.held.add(trial_id)
        return trial_id in self._leaving

    def pop_requested_end(self, trial_id: str) -> tuple[str, str] | None:
        """The final status and the control's id of a trial that a user ended, or None."""
        return self._leaving.pop(trial_id, None)

    def apply_max_concurrent(self, fits: int) -> int:
        """How many trials may run at a time, of as many as fit."""
        return min(fits, self._driver.spec.max_concurrent or fits)

    def _poll_requests(self, over: threading.Event) -> None:
        self._read()
        while not over.wait(_EVERY_S):
            self._read()

    def _read(self) -> None:
        """Read new requests. An error ends the search, unless it is the store's."""
        try:
            with suppress(OSError):
                # The next read tries again, at last that of a resume
                for request in read_requests(self._driver.folder, but=self._seen):
                    self._seen.add(request.id)
                    self._inbox.put(request)
        except Exception as error:  # in a thread, where nobody would see it
            reason = f"the controls cannot be read: {describe_error(error)}"
            self._driver.stop.fail(ExperimentError(reason))

    def _answer_request(self, request: Request, refused: str | None) -> None:
        control = request.control
        try:
            control = validate_control(control, self._driver.spec)
        except TunerError as error:
            refused = refused or str(error)
        refused = refused or self._find_refusal(control)
        fields: dict[str, Any] = {
            "id": request.id,
            "control": control.model_dump(mode="json"),
        }
        if request.by:
            fields["by"] = request.by
        if refused:
            fields["refused"] = refused
        elif control.verb == "try":
            # A suggestion before its start must not take this number
            fields["trial_id"] = self._driver.queue.choose_trial_id()
        self._driver.emit(events.CONTROL, **fields)
        if not refused and self._driver.error is None:  # else it is not in the journal
            self._apply_control(control)

    def _find_refusal(self, control: Control) -> str | None:
        """Why a control has nothing to act on now."""
        steered = self._history.steered
        match control.verb:
            case "stop-trial":
                trial = self._history.trials.get(control.value)
                if trial is None or trial.status not in (
                    events.RUNNING,
                    events.INTERRUPTED,
                ):
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

    def _apply_control(self, control: Control) -> None:
        """What the journal alone does not bring about."""
        verb = VERBS[control.verb]
        changed = {verb.field: control.value} if verb.is_setting else {}
        self._driver.apply_spec(self._driver.spec.model_copy(update=changed))
        if control.verb == "try":
            requested = self._history.steered.tries[-1]
            assert requested.trial_id is not None
            self._driver.queue.queue_config(requested.trial_id, requested.config)
        if control.verb != "stop-trial":
            return
        # One that runs ends with its next report
        trial = self._history.trials[control.value]
        if self._driver.queue.drop(trial.trial_id, find_last_result(trial)):
            stop = self._history.steered.stops[trial.trial_id]
            self._driver.end(trial.trial_id, events.STOPPED, control=stop.id)
