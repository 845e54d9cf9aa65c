"""A search whose trials run elsewhere: they ask for their configs, and tell what they measure.

Nothing is trained here, and no Ray is started. The searcher, the scheduler, the rules that end a
search and the journal are those of any other search, and so is the order of its events.

A trial belongs to whoever was given it, until it ends: at its last epoch, by the scheduler, by
`complete`, with the search, or by falling silent for `timeouts.report_s`. A driver that is closed
or killed takes no trial from anybody: the next one goes on with those that had not ended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tuner import background
from tuner.errors import (
    FAILURE_KINDS,
    ExperimentError,
    Fault,
    SearchClosedError,
    TunerError,
    UsageError,
    translate_error,
    unknown,
)
from tuner.experiment.clock import Clock
from tuner.experiment.control import present_document
from tuner.experiment.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
)
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.journal import Journal
from tuner.experiment.owner import this_owner
from tuner.experiment.trials import TrialRecord
from tuner.planning.validation import ValidatedSpec
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.trackers import Tracker
from tuner.search.elsewhere import recorded, validated
from tuner.search.handed_out import Client, HandedOut, noting
from tuner.search.policy import scheduler_of, searcher_of
from tuner.search.provenance import create
from tuner.search.recorder import Recorder
from tuner.search.resuming import Extension, finished, has_failed, restored
from tuner.search.schedulers._stopping import InOrder, StoppingScheduler
from tuner.search.searchers._background import BackgroundSearch
from tuner.search.stopping import EarlyEnd, StopRequest, ending
from tuner.search.warm_start import leave_out_tried, load_warm_start
from tuner.spec.experiment import ExperimentSpec
from tuner.trial.failures import Failure, check_report, cut

_log = logging.getLogger(__name__)

LONGEST_CLIENT = 200  # characters of a client's name
_SUGGESTION_TIMEOUT_S = 60.0
_TICK_S = 1.0  # between two looks at the clock, for what ends without a call


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A trial to run: its config, and the seed to train with.

    epoch: the last one that is recorded of it, 0 of a new trial. Epochs up to there may be trained
    again, and are not recorded again.
    """

    trial_id: str
    config: dict[str, Any]
    seed: int | None
    epoch: int = 0


class AskTell:
    """Drives an experiment whose trials run elsewhere; within its context it is the only driver.

    experiment: the spec of a new one, whose trainable is "elsewhere" or left out, or the folder of
    one to go on with. add_samples: how many more trials it gets. time_budget_s: another budget; it
    counts for all drivers of the experiment together. clock: seconds since the epoch.

    Every method may be called from any thread. Entering raises as `run_experiment` does. Once the
    journal or the storage fails, every method raises that ExperimentError, which `error` is then.
    Once it is closed before its end, every method raises SearchClosedError, and records nothing:
    the next driver of the experiment takes the same calls.
    """

    def __init__(
        self,
        experiment: ExperimentSpec | Path | str,
        *,
        add_samples: int = 0,
        time_budget_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._more = Extension(add_samples, time_budget_s)
        self._is_new = isinstance(experiment, ExperimentSpec)
        if isinstance(experiment, ExperimentSpec):
            self.spec = validated(experiment)
        else:
            self.spec = recorded(ExperimentFolder(experiment), self._more)
        self.history = History(self.spec.objective, metrics=[self.spec.objective.metric])
        self.is_over = self._is_closed = False
        self._folder = ExperimentFolder(self.spec.folder)
        self._clock = clock
        self._lock = threading.RLock()
        self._held = ExitStack()  # the experiment, until the search is over
        self._listening, self._watched = ExitStack(), ExitStack()
        self.error: TunerError | None = None

    def __enter__(self) -> Self:
        if self._is_new:
            create(self.spec)
        with ExitStack() as opening:
            self._open(opening)
            if self.is_over:  # it had ended, and stays as it is
                return self
            self._held = opening.pop_all()
        self._listening.enter_context(self._trials.steering.listening())
        self._settle()
        self._watched.enter_context(background.running(self._watch))
        return self

    def __exit__(self, *exception: object) -> None:
        self._watched.close()  # without the lock, for which its thread may wait
        with self._lock:
            if not self.is_over:
                self._is_closed = True
                self._finish(INTERRUPTED)
                if self.error is not None:
                    raise self.error

    @property
    def ended(self) -> bool:
        """Whether no further trial will be suggested; those that run still report."""
        return (self.is_over and not self._is_closed) or self._trials.at_end

    def suggest(self, client: str | None = None) -> Suggestion | None:
        """The next trial to run. None: there is no more (`ended`), or enough run for now.

        client: the caller's own name. Whoever asks again under it is given its trial again as long
        as that runs: after an answer that was lost, or after a restart of either side. Raises
        ExperimentError where the searcher fails.
        """
        if client is not None and not (client.isprintable() and 0 < len(client) <= LONGEST_CLIENT):
            rule = f"must be 1 to {LONGEST_CLIENT} printable characters"
            raise UsageError(str(Fault("client", rule, client)))
        deadline = time.monotonic() + _SUGGESTION_TIMEOUT_S
        while True:
            with self._call():
                trial = self._suggested(client)
            left_s = deadline - time.monotonic()
            if trial is not None:
                seed = trial.trained_with(self.spec.seed)
                return Suggestion(trial.trial_id, trial.config, seed, trial.last_epoch)
            is_computed = isinstance(self._searcher, BackgroundSearch)
            if self.ended or self._trials.is_full or left_s <= 0 or not is_computed:
                return None
            self._searcher.wait(min(left_s, _TICK_S))  # without the lock: others may report

    def report(self, trial_id: str, epoch: int, metrics: Mapping[str, Any]) -> bool:
        """Record what an epoch came to; whether the trial should stop now.

        Epochs are whole numbers that increase. What is no finite number is left out; an objective
        that is not finite ends the trial as failed. A report that comes twice is recorded once.
        Nothing is recorded of a trial that has ended. Raises UsageError for an unknown trial, for
        an epoch that must not come, and for a report without the objective.
        """
        if type(epoch) is not int or not 1 <= epoch < 10**15:
            raise UsageError(str(Fault("epoch", "must be a whole number from 1 on", epoch)))
        recorded, _, failure = check_report(metrics, self.spec.objective.metric)
        if failure and failure.kind == "bad_report":
            raise UsageError(f"epoch {epoch} of trial {trial_id} {failure.message}")
        with self._lock:
            with self._call():
                if self._runs(trial_id) and failure:
                    self._trials.end(trial_id, FAILED, failure)
                elif self._runs(trial_id):
                    self._trials.report(trial_id, epoch, recorded)
            return trial_id not in self._trials

    def should_stop(self, trial_id: str) -> bool:
        """Whether the trial should stop now: it has ended. Raises UsageError for an unknown one."""
        with self._lock:
            with self._call():
                if self._runs(trial_id):
                    self._trials.leave_if_asked(trial_id)
            return trial_id not in self._trials

    def complete(
        self, trial_id: str, *, failure: str | None = None, kind: str = "exception"
    ) -> None:
        """End a trial: at its end, or with a `failure` in words, of a kind of FAILURE_KINDS.

        The config of a trial that failed is avoided from then on, but not of one that failed by
        `node_lost`. A trial that has ended stays as it is. Raises UsageError for an unknown trial
        or kind.
        """
        if kind not in FAILURE_KINDS:
            raise UsageError(str(unknown("kind", "kind of failure", kind, FAILURE_KINDS)))
        with self._call():
            if not self._runs(trial_id):
                return
            if failure is not None:
                self._trials.end(trial_id, FAILED, Failure(kind, cut(failure)))
            elif not self.trial(trial_id).results:
                lacking = Failure("bad_report", "completed without a report")
                self._trials.end(trial_id, FAILED, lacking)
            else:
                self._trials.end(trial_id, COMPLETED)

    def trial(self, trial_id: str) -> TrialRecord:
        """The trial as it stands. Raises UsageError for an unknown one."""
        if trial_id not in self.history.trials:
            raise UsageError(f"{self.spec.name} has no trial {trial_id[:20]!r}")
        return self.history.trials[trial_id]

    # What is below holds the lock

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Within it a caller is served; before and after, what is due ends."""
        with self._lock:
            self._settle()
            yield
            self._settle()

    def _settle(self) -> None:
        """End what is due: silent trials, and the search. Raises what keeps it from going on."""
        if not self.is_over:
            self._trials.steering.attend()
            self._trials.end_silent()
            self.stop.reason = self._early_end.reason(self._journal.clock())
            self.error = self._recorder.error or self.stop.error
            if self.error is not None:
                self._finish(FAILED)
            elif self.stop.requested or (self._trials.at_end and not self._trials):
                self._finish(COMPLETED)
        if self.error is not None:
            raise self.error
        if self._is_closed:
            raise SearchClosedError(f"{self.spec.name} is closed: ask again once it is opened")

    def _finish(self, status: str) -> None:
        """Journal how the search has ended, and let go of the experiment."""
        self.is_over = True
        self._listening.close()  # what is asked for too late is refused, in the journal
        self._trials.interrupt()
        end = {"status": status}
        if status == COMPLETED:
            end = ending(self.spec, self.history, self.stop)
        self._recorder.emit(EXPERIMENT_ENDED, **end)
        self.error = self.error or self._recorder.error
        try:
            self._held.close()
        except TunerError as error:
            self.error = self.error or error  # whatever failed first has the rest fail, too

    def _runs(self, trial_id: str) -> bool:
        """Whether the trial runs; if so it counts as heard of. Raises as `trial` does."""
        self.trial(trial_id)
        return self._trials.heard(trial_id) is not None

    def _suggested(self, client: str | None) -> TrialRecord | None:
        if self.is_over:
            return None
        if client is not None and (trial := self._trials.of(client)):
            return trial
        with translate_error(ExperimentError, "the searcher failed"):
            return self._trials.next(client)

    def _watch(self, over: threading.Event) -> None:
        """End what is due, without a call."""
        while not self.is_over and not over.wait(_TICK_S):
            with self._lock, suppress(TunerError):  # whoever calls next is told
                self._settle()

    # Opening

    def _open(self, held: ExitStack) -> None:
        """Take the experiment, and go on from where its journal ends."""
        spec, history = self.spec, self.history
        sync = held.enter_context(self._folder.held(_log.warning))
        is_done = not self._is_new and finished(self._folder.path, self._more) is not None
        self._journal = held.enter_context(Journal.open(self._folder.path, clock=self._clock))
        scheduler, clients = scheduler_of(spec), dict[str, Client]()
        events = noting(self._journal.earlier(), clients)
        earlier = restored(events, history, scheduler, spec.objective.metric)
        warm_start = load_warm_start(spec)
        leave_out_tried(spec, warm_start)
        self._searcher = searcher_of(
            spec, slots=spec.max_concurrent or 1, earlier=earlier, warm_start=warm_start
        )
        self._searched_s = history.duration_s
        self.stop = StopRequest(None)
        self._early_end = EarlyEnd(spec.stop, spec.objective, history, spec.search.space)
        retry_failed = has_failed(history)
        if history.status == COMPLETED or retry_failed:  # those who ran trials were told to stop
            clients = {i: replace(client, has_left=True) for i, client in clients.items()}
        if not is_done:
            held.enter_context(sync.running(self._journal, self.stop.fail))
        self._recorder = self._recorder_of(scheduler, [] if is_done else self._trackers(held))
        if not is_done:
            self._write_changes()
            started = {"resumed": not self._is_new, "owner": this_owner()}
            self._recorder.emit(EXPERIMENT_STARTED, **started)
        self._trials = HandedOut(
            spec,
            self._folder,
            history,
            self._recorder,
            searcher=self._searcher,
            scheduler=scheduler or InOrder(),
            clock=self._journal.clock,
            on_change=self._go_on_by,
        )
        self._go_on_by(spec)
        self._trials.take_up(clients, retry_failed=retry_failed)
        self.is_over = is_done

    def _go_on_by(self, spec: ValidatedSpec) -> None:
        """Go on by a spec whose time budget may be another: what drivers before have left of it."""
        budget = spec.time_budget_s
        self.stop.time_budget_s = None if budget is None else max(budget - self._searched_s, 0.0)
        self.spec = spec

    def _write_changes(self) -> None:
        document = present_document(self._folder)
        extended = self._more.applied_to(document, self._folder)
        if extended != document:
            self._folder.write(EXPERIMENT, {**extended, "spec": self.spec.model_dump(mode="json")})

    def _trackers(self, held: ExitStack) -> list[Tracker]:
        trackers = [Tracker(name, self.spec, self.history) for name in self.spec.log]
        for tracker in trackers:
            held.callback(tracker.close)
        return trackers

    def _recorder_of(
        self, scheduler: StoppingScheduler | None, trackers: list[Tracker]
    ) -> Recorder:
        return Recorder(
            self._journal,
            self.history,
            [TensorBoardWriter(self.spec, self.history), self._early_end, *trackers],
            is_stopped=lambda trial_id: scheduler is not None and trial_id in scheduler.stopped,
            forecasts=lambda trial_id: scheduler.forecasts(trial_id) if scheduler else {},
            settle=lambda *failed: None,
        )
