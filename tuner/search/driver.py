"""The core of a search: hands out trials, takes reports, and records each before it acts on it.

Its clients are Ray Tune (`tune_run`) and processes that ask for trials (`ask_tell`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tuner.errors import ExperimentError, JournalError
from tuner.experiment.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    RUNNING,
    STOPPED,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History, collector_paused
from tuner.experiment.journal import Journal
from tuner.experiment.owner import this_owner
from tuner.experiment.steered import ASKED
from tuner.experiment.trials import TrialRecord
from tuner.search.changing import Lengths
from tuner.search.resuming import has_failed, in_turn, restored, unfinished
from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
from tuner.search.steering import Steering
from tuner.search.stopping import EarlyEnd, StopRequest, ending
from tuner.search.trial_queue import TrialQueue, replay
from tuner.search.warm_start import WarmStart, leave_out_tried, load_warm_start
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.validation import ValidatedSpec
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure


class Driver:
    """Drives one experiment, from its start or its resume to its end.

    Each event goes into the journal, then into `history`, then to the `observers`, which read that
    history. `error`: why the journal or a trial's files could not be written; the client then ends
    the search. `on_change` is called when a control has changed `spec`.
    """

    scheduler: InOrder
    searcher: Any
    steering: Steering
    queue: TrialQueue

    def __init__(
        self,
        spec: ValidatedSpec,
        folder: ExperimentFolder,
        journal: Journal,
        *,
        retry_failed: bool = False,
        lengths: Lengths | None = None,
    ) -> None:
        self.spec, self.folder, self.journal = spec, folder, journal
        self.retry_failed, self.lengths = retry_failed, lengths or Lengths(spec.epochs)
        self.history = History(spec.objective, metrics=[spec.objective.metric])
        self.stop = StopRequest(spec.time_budget_s)
        self.error: ExperimentError | None = None
        self.observers: list[Callable[[Event], object]] = []
        self.on_change: Callable[[], object] = lambda: None
        self.spent_s = 0.0  # of the time budget, by earlier drivers
        self._early_end = EarlyEnd(spec.stop, spec.objective, self.history, spec.search.space)
        self._warm_start = load_warm_start(spec)
        leave_out_tried(spec, self._warm_start)

    def restore(self, events: Iterable[Event] | None = None) -> None:
        """Let history, scheduler and searcher take in the events of earlier runs.

        events: by default those of the journal.
        """
        spec = self.spec
        self.scheduler = scheduler_of(spec)
        events = self.journal.earlier() if events is None else events
        metric = spec.objective.metric
        earlier = restored(events, self.history, self.scheduler, metric, self.lengths)
        self.searcher = searcher_of(spec, earlier, self._warm_start)
        self.retry_failed |= has_failed(self.history)

    def journal_start(self, *, resumed: bool) -> None:
        """Journal that this process drives the experiment."""
        self.emit(EXPERIMENT_STARTED, resumed=resumed, owner=this_owner())

    def unfinished(self, *, runs_on: bool = False) -> Iterator[TrialRecord]:
        """The trials that go on, in their order; journals the end of those that have ended.

        runs_on: whether a trial has code to run after its last epoch.
        """
        if self.retry_failed:  # journaled, in case this driver is killed before they go on
            self._interrupt(FAILED)
        for trial in in_turn(unfinished(self.history), self.lengths, self.spec.objective):
            if not self._end_if_over(trial, runs_on=runs_on):
                yield trial

    def begin(self, trials: Iterable[Assignment], *, fits: Callable[[], int]) -> None:
        """Hand out trials: `trials` first, then the searcher's.

        fits: how many trials fit at the moment, whatever max_concurrent says.
        """
        known = self.history.trials
        self.steering = Steering(self, fits=fits)
        self.queue = TrialQueue(
            self.searcher,
            total=self.spec.trials,
            limit=self.steering.limit,
            taken=known,
            requested=[trial.trial_id for trial in known.values() if trial.origin == ASKED],
            unfinished=trials,
            steered=self.history.steered,
        )
        self.go_on_by(self.spec)

    def go_on_by(self, spec: ValidatedSpec) -> None:
        """Go on with another time budget, or number of trials, at a time or in total."""
        self.spec, self.queue.total, self.queue.at_end = spec, spec.trials, False
        budget_s = spec.time_budget_s
        self.stop.time_budget_s = None if budget_s is None else max(budget_s - self.spent_s, 0.0)
        self.on_change()

    def is_over(self) -> bool:
        """Whether the search ends now, whatever its trials do."""
        self.stop.reason = self._early_end.reason(self.journal.clock())
        return self.stop.requested or self.error is not None

    def finish(self, status: str) -> None:
        """Journal the end of the search, with a summary; a completed search may have failed."""
        self.interrupt_running()
        is_completed = status == COMPLETED
        end = ending(self.spec, self.history, self.stop) if is_completed else {"status": status}
        self.emit(EXPERIMENT_ENDED, **end, **self.history.summary(self.spec.trials))

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
        if trial is None or trial.status != RUNNING:
            fields = {name: value for name, value in details.items() if value is not None}
            self.emit(TRIAL_STARTED, trial_id=trial_id, config=config, **fields)

    def end(
        self,
        trial_id: str,
        status: str,
        failure: Failure | None = None,
        *,
        control: str | None = None,
        done: bool = False,
    ) -> None:
        """Journal the end of a trial.

        control: the id of the control that ended it. done: a longer limit does not continue it.
        """
        fields: dict[str, Any] = {"control": control} if control else {}
        if done:
            fields["done"] = True
        if failure:
            fields["error"] = {"kind": failure.kind, "message": failure.message}
        if status in (STOPPED, COMPLETED) and (forecasts := self.scheduler.forecasts(trial_id)):
            fields["forecasts"] = forecasts
        self.emit(TRIAL_ENDED, trial_id=trial_id, status=status, **fields)

    def interrupt_running(self) -> None:
        """End the trials that still run as interrupted."""
        self._interrupt(RUNNING)

    def _interrupt(self, status: str) -> None:
        for trial in sorted(self.history.of_status(status), key=lambda t: t.trial_id):
            self.end(trial.trial_id, INTERRUPTED)

    def _end_if_over(self, trial: TrialRecord, *, runs_on: bool) -> bool:
        """Journal the end of a trial whose driver was killed before it could."""
        epochs = self.spec.epochs
        is_whole = epochs is not None and trial.last_epoch >= epochs
        if trial.done or (is_whole and not runs_on):
            self.end(trial.trial_id, COMPLETED, done=trial.done)
        elif stop := self.history.steered.stops.get(trial.trial_id):
            self.end(trial.trial_id, STOPPED, control=stop.id)
        elif trial.trial_id in self.scheduler.stopped and not is_whole:
            self.end(trial.trial_id, STOPPED)
        else:
            return False
        return True


def scheduler_of(spec: ExperimentSpec) -> InOrder:
    """The scheduler of `spec`; by default one that stops no trial."""
    epochs = spec.stop.patience_epochs
    if spec.scheduler is None:
        return StoppingScheduler(spec.objective, Patience(epochs)) if epochs else InOrder()
    scheduler: StoppingScheduler = spec.scheduler.build(spec.objective, brackets=spec.brackets)
    if epochs is not None:
        scheduler.rules.append(Patience(epochs))
    return scheduler


def searcher_of(
    spec: ExperimentSpec, earlier: Iterator[Event], warm_start: WarmStart | None = None
) -> Any:
    """The searcher of `spec`, after the warm start and the `earlier` events.

    All of `earlier` is read, even if it does not learn.
    """
    searcher = spec.search.build(spec.seed, objective=spec.objective, max_t=spec.epochs)
    if warm_start:
        warm_start.add_to(searcher)
    with collector_paused():
        replay(searcher, earlier)
        deque(earlier, maxlen=0)
    return searcher
