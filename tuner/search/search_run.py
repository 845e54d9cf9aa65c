"""One driver's run of an experiment: one `tune.run`, whose reports are journaled first of all."""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tuner import ray_compat, streams
from tuner.cluster import connect as cluster
from tuner.cluster import daemons
from tuner.errors import (
    ExperimentError,
    InterruptedSearchError,
    JournalLostError,
    TunerError,
)
from tuner.experiment.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
)
from tuner.experiment.folder import ExperimentFolder, Sync
from tuner.experiment.history import History
from tuner.experiment.journal import Journal
from tuner.experiment.owner import this_owner
from tuner.experiment.results.results import Results
from tuner.experiment.steered import ASKED
from tuner.experiment.trials import TrialRecord
from tuner.planning.validation import ValidatedSpec
from tuner.reporting.experiment_text import resume_with
from tuner.reporting.notifier import Notifier
from tuner.reporting.plan_text import reserves
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.reporting.time_left import TimeLeft
from tuner.reporting.trackers import Tracker
from tuner.search import leftovers
from tuner.search.changing import Lengths
from tuner.search.policy import scheduler_of, searcher_of
from tuner.search.resuming import (
    assignment_of,
    has_failed,
    in_turn,
    restored,
    unfinished,
)
from tuner.search.retention import Retention
from tuner.search.stopping import EarlyEnd, StopRequest, ending
from tuner.search.warm_start import WarmStart
from tuner.trial.context import Assignment
from tuner.trial.shared_gpus import is_shared

if TYPE_CHECKING:
    from tuner.search.recorder import Observer
    from tuner.search.schedulers._stopping import StoppingScheduler
    from tuner.search.steering import Steering

_log = logging.getLogger(__name__)

_PATIENCE = 1.5  # times `timeouts.report_s`, by which a worker should have ended itself


class SearchRun:
    """One driver's run of an experiment, from its start or its resume to its end.

    Events go one way: from Ray to the recorder, into the journal, into `history`, and then to the
    observers, which all read that one history.
    """

    def __init__(
        self,
        spec: ValidatedSpec,
        folder: ExperimentFolder,
        journal: Journal,
        sync: Sync,
        *,
        resumed: bool = False,
        retry_failed: bool = False,
        lengths: Lengths | None = None,
        warm_start: WarmStart | None = None,
    ) -> None:
        self.spec = spec
        self.history = History(spec.objective, metrics=[spec.objective.metric])
        self.stop = StopRequest(spec.time_budget_s)
        self._early_end = EarlyEnd(spec.stop, spec.objective, self.history, spec.search.space)
        self._folder = folder
        self._journal = journal
        self._sync = sync
        self._resumed = resumed
        self._retry_failed = retry_failed
        self._lengths = lengths or Lengths(spec.epochs)
        self._warm_start = warm_start

    def search(self) -> Results:
        """Run the search to its end. Raises as `run.run_experiment` does."""
        ray_compat.without_widgets()
        trackers = [Tracker(name, self.spec, self.history) for name in self.spec.log]
        try:
            with (
                streams.lasting(),
                self._sync.running(self._journal, self.stop.fail),
                cluster.connect(spec=self.spec),
                self.stop,
                self._observers(trackers) as observers,
            ):
                self._tune(observers)
        except KeyboardInterrupt:  # the second one
            if self.stop.signal is None:
                raise
        if self.stop.error is not None:
            raise self._with_advice(self.stop.error) from self.stop.error
        if self.stop.signal is not None:
            name = signal.Signals(self.stop.signal).name
            message = f"{name} ended the search; {self._how_to_resume()}"
            raise InterruptedSearchError(message, self.stop.signal)
        return Results(self.spec.folder)

    def _with_advice(self, error: TunerError) -> TunerError:
        """`error`, and how to go on once its cause is mended."""
        if isinstance(error, JournalLostError):
            return JournalLostError(str(error))
        return type(error)(f"{error}; then {self._how_to_resume()}")

    def _how_to_resume(self) -> str:
        return f"go on with: {resume_with(self.spec.folder, self.spec.trainable)}"

    @property
    def _slots(self) -> int:
        """How many trials may run at a time, as the search begins."""
        slots = cluster.slots(self.spec.resources)
        return min(slots, self.spec.max_concurrent or slots)

    @contextmanager
    def _observers(self, trackers: list[Tracker]) -> Iterator[list[Observer]]:
        """Whoever is notified of every event; closed at the end, however that comes."""
        spec, history = self.spec, self.history
        self._progress = progress = Progress(
            history,
            TimeLeft.of(spec, history),
            metric=spec.objective.metric,
            each=reserves(spec.resources),
            clock=self._journal.clock,
        )
        notifier = Notifier(spec, history)

        def advice_at_exit() -> str:
            progress.close()
            notifier.close()
            return self._how_to_resume()

        with ExitStack() as at_the_end:
            at_the_end.callback(progress.close)
            for tracker in trackers:
                at_the_end.callback(tracker.close)
            at_the_end.callback(notifier.close)
            at_the_end.enter_context(daemons.exit_advice(advice_at_exit))
            yield [
                TensorBoardWriter(spec, history),
                Retention(spec.folder, history, spec.objective, sync=self._sync),
                progress,
                self._early_end,
                *trackers,
                notifier,
            ]

    def _tune(self, observers: list[Observer]) -> None:
        """The one call of `tune.run`."""
        from ray import tune

        from tuner.search import tune_arguments
        from tuner.search.recorder import Recorder
        from tuner.search.schedulers._stopping import InOrder
        from tuner.search.steering import Steering
        from tuner.search.waiting import Waiting

        spec, elsewhere = self.spec, cluster.is_joined()
        scheduler = scheduler_of(spec)
        searcher = self._searcher(scheduler)
        in_order = scheduler or InOrder()
        if self._resumed:
            leftovers.sweep(self._folder, self.history.trials.values())
        watch = ray_compat.WorkerWatch(_PATIENCE * spec.timeouts.report_s)
        if is_shared():
            watch.start_s = math.inf  # it may wait for a GPU that another search has
        self._recorder = recorder = Recorder(
            self._journal,
            self.history,
            observers,
            is_stopped=scheduler.stopped.__contains__ if scheduler else lambda trial_id: False,
            forecasts=scheduler.forecasts if scheduler else lambda trial_id: {},
            settle=self._settle,
            call_of=watch.call_of,
            report_timeout_s=spec.timeouts.report_s,
            leaving=lambda trial_id: steering.leaving(trial_id),
            epochs=spec.epochs,
            is_over=self._is_over,
        )
        recorder.emit(EXPERIMENT_STARTED, resumed=self._resumed, owner=this_owner())
        steering = Steering(
            self._folder,
            self.history,
            self,
            fits=self._fits(),
            scheduler=in_order,
            comes_and_goes=elsewhere,
        )
        self._source = steering.source = self._trial_source(searcher, steering)
        self.go_on_by(spec)
        with (
            self._end_journaled(steering),
            tune_arguments.ray_files(self._folder) as files,
            ray_compat.keep_workers(here=not elsewhere, spare=steering.spare),
            ray_compat.watched_workers(watch),
        ):
            tune.run(
                tune_arguments.tune_trainable(spec),
                name="tune",
                metric=spec.objective.metric,
                mode=spec.objective.mode,
                num_samples=-1,  # the source decides when there are no more
                search_alg=self._source,
                scheduler=in_order,
                stop=tune_arguments.StopAll(self._is_over),
                callbacks=[recorder, steering, Waiting(partial(cluster.shortage, spec.resources))],
                progress_reporter=tune_arguments.progress_reporter(),
                storage_path=files,
                reuse_actors=True,
                raise_on_failed_trial=False,
                verbose=0,
            )

    def _searcher(self, scheduler: StoppingScheduler | None) -> Any:
        """What suggests configs; it and `scheduler` have seen the runs before this one."""
        events, metric = self._journal.earlier(), self.spec.objective.metric
        earlier = restored(events, self.history, scheduler, metric, self._lengths)
        searcher = searcher_of(
            self.spec, slots=self._slots, earlier=earlier, warm_start=self._warm_start
        )
        self._retry_failed |= has_failed(self.history)
        return searcher

    def _fits(self) -> Callable[[], int]:
        """How many trials fit at the moment, whatever max_concurrent says."""
        slots = cluster.slots(self.spec.resources)
        # The nodes of a joined cluster come and go
        return cluster.room(self.spec) if cluster.is_joined() else lambda: slots

    def _trial_source(self, searcher: Any, steering: Steering) -> Any:
        """What gives Tune its trials: the unfinished ones first, then the searcher's."""
        from tuner.search.trial_source import TrialSource

        trials, steered = self.history.trials, self.history.steered

        def attend() -> bool:
            steering.attend()
            return self._is_over()

        return TrialSource(
            searcher,
            total=self.spec.trials,
            limit=steering.limit,
            taken=trials,
            asked=[one.trial_id for one in trials.values() if one.origin == ASKED],
            unfinished=self._unfinished(),
            steered=steered,
            attend=attend,
        )

    def emit(self, event: str, **fields: Any) -> None:
        """Journal an event, as steering asks for it."""
        self._recorder.emit(event, **fields)

    def end(self, trial_id: str, status: str, *, control: str | None = None) -> None:
        """Journal the end of a trial."""
        self._recorder.end(trial_id, status, control=control)

    def go_on_by(self, spec: ValidatedSpec) -> None:
        """Go on by a spec with another number of trials, at a time or in all, or another budget."""
        self.spec, self.stop.time_budget_s = spec, spec.time_budget_s
        self._source.total = spec.trials
        self._progress.expect(TimeLeft.of(spec, self.history))

    def _unfinished(self) -> list[Assignment]:
        """Where the unfinished trials go on; ends those that had come to their end."""
        from tuner.search.tune_arguments import trial_class

        assignments = []
        if self._retry_failed:
            self._recorder.reopen_failed()
        trials = unfinished(self.history)
        runs_on = bool(trials) and trial_class(self.spec).runs_on
        for trial in in_turn(trials, self._lengths, self.spec.objective):
            if self._recorder.end_if_over(trial, epochs=self.spec.epochs, runs_on=runs_on):
                continue
            assignment = self._continued(trial)
            if assignment.checkpoint is None and trial.last_epoch in self._lengths.before:
                told = "trial %s stays as it was: it has no checkpoint to go on from"
                _log.warning(told, trial.trial_id)
                self._recorder.end(trial.trial_id, COMPLETED, done=True)
            else:
                assignments.append(assignment)
        return assignments

    def _settle(self, trial_id: str, kind: str, again: bool) -> None:
        """Try a failed trial again, or let the searcher know that its config fails."""
        leftovers.sweep(self._folder, [self.history.trials[trial_id]])
        if again:
            self._source.retry(self._continued(self.history.trials[trial_id]))
        else:
            self._source.give_up(trial_id, kind)

    def _continued(self, trial: TrialRecord) -> Assignment:
        """Where `trial` goes on; warns if its newest checkpoint cannot be used."""
        assignment, warnings = assignment_of(self._folder, trial)
        for warning in warnings:
            _log.warning("%s; going back to the one before", warning)
        return assignment

    def _is_over(self) -> bool:
        """Whether the search ends now, whatever its trials do."""
        self.stop.reason = self._early_end.reason(self._journal.clock())
        return self.stop.requested or self._recorder.error is not None

    @contextmanager
    def _end_journaled(self, steering: Steering) -> Iterator[None]:
        """However `tune.run` ends, the journal says so. Raises ExperimentError if it failed."""
        from ray.tune import TuneError

        recorder, has_ended = self._recorder, False
        try:
            with steering.listening():
                yield
            has_ended = self.stop.error is None
        except TuneError as error:
            raise ExperimentError(f"Ray Tune failed: {error}") from error
        finally:
            recorder.interrupt_running()
            end = ending(self.spec, self.history, self.stop) if has_ended else {"status": FAILED}
            if self.stop.signal is not None:
                end = {"status": INTERRUPTED}
            recorder.emit(EXPERIMENT_ENDED, **end)
        if (cause := recorder.error) is not None:
            raise self._with_advice(cause) from cause
