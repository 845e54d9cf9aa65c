"""One driver's run of an experiment: one `tune.run`, whose reports are journaled first of all."""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Iterator
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
from tuner.owner import this_owner
from tuner.planning.validation import ValidatedSpec
from tuner.record.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    STOPPED,
)
from tuner.record.folder import ExperimentFolder, Sync
from tuner.record.history import History, TrialRecord, collector_paused
from tuner.record.journal import Journal
from tuner.reporting.experiment_text import resume_with
from tuner.reporting.plan_text import reserves
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.reporting.time_left import TimeLeft
from tuner.reporting.trackers import Tracker
from tuner.results.results import Results
from tuner.search import leftovers
from tuner.search.resuming import (
    assignment_of,
    restored,
    unfinished,
)
from tuner.search.retention import Retention
from tuner.search.stopping import EarlyEnd, StopRequest
from tuner.search.warm_start import load_warm_start
from tuner.trial.context import Assignment

if TYPE_CHECKING:
    from tuner.search.recorder import Observer

_log = logging.getLogger(__name__)

_UNBOUNDED = 1_000_000
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
    ) -> None:
        self.spec = spec
        self.history = History(spec.objective, metrics=[spec.objective.metric])
        self.stop = StopRequest(spec.time_budget_s)
        self._early_end = EarlyEnd(spec.stop, spec.objective, self.history)
        self._folder = folder
        self._journal = journal
        self._sync = sync
        self._resumed = resumed
        self._retry_failed = retry_failed

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
        """How many trials may run at a time."""
        slots = cluster.slots(self.spec.resources)
        return min(slots, self.spec.max_concurrent or slots)

    @contextmanager
    def _observers(self, trackers: list[Tracker]) -> Iterator[list[Observer]]:
        """Whoever is notified of every event; closed at the end, however that comes."""
        spec, history = self.spec, self.history
        progress = Progress(
            history,
            TimeLeft.of(spec),
            metric=spec.objective.metric,
            each=reserves(spec.resources),
            clock=self._journal.clock,
        )

        def advice_at_exit() -> str:
            progress.close()
            return self._how_to_resume()

        with ExitStack() as at_the_end:
            at_the_end.callback(progress.close)
            for tracker in trackers:
                at_the_end.callback(tracker.close)
            at_the_end.enter_context(daemons.exit_advice(advice_at_exit))
            yield [
                TensorBoardWriter(spec, history),
                Retention(spec.folder, history, spec.objective, sync=self._sync),
                progress,
                self._early_end,
                *trackers,
            ]

    def _tune(self, observers: list[Observer]) -> None:
        """The one call of `tune.run`."""
        from ray import tune

        from tuner.search import tune_arguments
        from tuner.search.recorder import Recorder
        from tuner.search.schedulers._stopping import InOrder
        from tuner.search.waiting import Waiting

        spec, elsewhere = self.spec, cluster.is_joined()
        scheduler = self._scheduler()
        searcher = self._searcher(scheduler)
        if self._resumed:
            leftovers.sweep(self._folder, self.history.trials.values())
        watch = ray_compat.WorkerWatch(_PATIENCE * spec.timeouts.report_s)
        self._recorder = recorder = Recorder(
            self._journal,
            self.history,
            observers,
            is_stopped=scheduler.stopped.__contains__ if scheduler else lambda trial_id: False,
            forecasts=scheduler.forecasts if scheduler else lambda trial_id: {},
            settle=self._settle,
            call_of=watch.call_of,
            report_timeout_s=spec.timeouts.report_s,
            is_over=self._is_over,
        )
        recorder.emit(EXPERIMENT_STARTED, resumed=self._resumed, owner=this_owner())
        self._source = self._trial_source(searcher)
        with (
            self._end_journaled(),
            tune_arguments.ray_files(self._folder) as files,
            ray_compat.keep_workers(here=not elsewhere),
            ray_compat.watched_workers(watch),
        ):
            tune.run(
                tune_arguments.tune_trainable(spec),
                name="tune",
                metric=spec.objective.metric,
                mode=spec.objective.mode,
                num_samples=-1,  # the source decides when there are no more
                search_alg=self._source,
                scheduler=scheduler or InOrder(),
                stop=tune_arguments.StopAll(self._is_over),
                callbacks=[recorder, Waiting(partial(cluster.shortage, spec.resources))],
                progress_reporter=tune_arguments.progress_reporter(),
                storage_path=files,
                reuse_actors=True,
                raise_on_failed_trial=False,
                verbose=0,
            )

    def _scheduler(self) -> Any:
        """What stops trials; None: nothing does."""
        from tuner.search.schedulers._stopping import Patience, StoppingScheduler

        spec, epochs = self.spec, self.spec.stop.patience_epochs
        if spec.scheduler is None:
            return epochs and StoppingScheduler(spec.objective, Patience(epochs))
        scheduler = spec.scheduler.build(spec.objective, brackets=spec.brackets)
        if epochs is not None:
            scheduler.be_patient(epochs)
        return scheduler

    def _searcher(self, scheduler: Any) -> Any:
        """What suggests configs; it and `scheduler` have seen the runs before this one."""
        from tuner.search.trial_source import replay

        spec = self.spec
        searcher = spec.search.build(
            spec.seed, objective=spec.objective, max_t=spec.epochs, slots=self._slots
        )
        if warm_start := load_warm_start(spec):
            warm_start.add_to(searcher)
        earlier = restored(self._journal.earlier(), self.history, scheduler, spec.objective.metric)
        with collector_paused():
            replay(searcher, earlier)
            deque(earlier, maxlen=0)  # a searcher that does not learn has not read them
        return searcher

    def _trial_source(self, searcher: Any) -> Any:
        """What gives Tune its trials: the unfinished ones first, then the searcher's."""
        from tuner.search.trial_source import TrialSource

        slots, limit = self._slots, None
        if cluster.is_joined():  # whose nodes come and go: only the source knows how many fit
            slots, limit = _UNBOUNDED, cluster.room(self.spec)
        # No more than can run: Tune would reserve a place for more, and start new workers there
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(slots)
        return TrialSource(
            searcher,
            total=self.spec.trials,
            limit=limit or (lambda: slots),
            taken=self.history.trials,
            unfinished=self._unfinished(),
        )

    def _unfinished(self) -> list[Assignment]:
        """Where the unfinished trials go on; ends those that had come to their end."""
        assignments = []
        for trial in unfinished(self.history, retry_failed=self._retry_failed):
            if self.spec.epochs is not None and trial.last_epoch >= self.spec.epochs:
                self._recorder.end(trial.trial_id, COMPLETED)
            elif self._recorder.is_stopped(trial.trial_id):
                self._recorder.end(trial.trial_id, STOPPED)
            else:
                assignments.append(self._continued(trial))
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

    def _why_early(self, status: str) -> dict[str, Any]:
        """Of a search that ends before its trials do: why, and how many have not started."""
        total, trials = self.spec.trials, self.history.trials
        is_whole = total is not None and len(trials) >= total
        reason = self.stop.why_early
        if status != COMPLETED or reason is None:
            return {}
        if is_whole and not unfinished(self.history):
            return {}
        rest = {} if total is None else {"never_started": total - len(trials)}
        return {"reason": reason, **rest}

    def _is_over(self) -> bool:
        """Whether the search ends now, whatever its trials do."""
        self.stop.reason = self._early_end.reason(self._journal.clock())
        return self.stop.requested or self._recorder.error is not None

    @contextmanager
    def _end_journaled(self) -> Iterator[None]:
        """However `tune.run` ends, the journal says so. Raises ExperimentError if it failed."""
        from ray.tune import TuneError

        recorder, status = self._recorder, FAILED
        try:
            yield
            status = COMPLETED if self.stop.error is None else FAILED
        except TuneError as error:
            raise ExperimentError(f"Ray Tune failed: {error}") from error
        finally:
            recorder.interrupt_running()
            status = status if self.stop.signal is None else INTERRUPTED
            recorder.emit(EXPERIMENT_ENDED, status=status, **self._why_early(status))
        if (cause := recorder.error) is not None:
            raise self._with_advice(cause) from cause
