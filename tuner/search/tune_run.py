"""One driver's run of an experiment with Ray Tune: one `tune.run`."""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from tuner import process, ray_compat
from tuner.cluster import connect as cluster
from tuner.cluster import daemons
from tuner.errors import (
    ExperimentError,
    InterruptedSearchError,
    JournalLostError,
    TunerError,
)
from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED
from tuner.experiment.folder import Sync
from tuner.experiment.results.results import Results
from tuner.reporting.experiment_text import resume_with
from tuner.reporting.notifier import Notifier
from tuner.reporting.plan_text import reserves
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.reporting.time_left import TimeLeft
from tuner.reporting.trackers import Tracker
from tuner.search import tune_arguments
from tuner.search.driver import Driver
from tuner.search.resuming import assignment_of
from tuner.search.retention import Retention, sweep
from tuner.search.steering import UNBOUNDED
from tuner.search.tune_callbacks import Recorder, TuneSearcher, Waiting
from tuner.trial.context import Assignment
from tuner.trial.gpus import is_shared

_log = logging.getLogger(__name__)

_MAX_PENDING = "TUNE_MAX_PENDING_TRIALS_PG"
_PATIENCE = 1.5  # times `timeouts.report_s`, by which a worker should have ended itself


class TuneRun:
    """One driver's run of an experiment with Ray Tune, from its start or its resume to its end."""

    def __init__(self, driver: Driver, sync: Sync, *, resumed: bool = False) -> None:
        self.driver, self._sync, self._resumed = driver, sync, resumed

    def search(self) -> Results:
        """Run the search to its end. Raises as `run_experiment` does."""
        ray_compat.without_widgets()
        driver, stop = self.driver, self.driver.stop
        driver.on_change = self._adapt
        trackers = [Tracker(name, driver.spec, driver.history) for name in driver.spec.log]
        try:
            with (
                process.lasting(),
                self._sync.running(driver.journal, stop.fail),
                cluster.connect(spec=driver.spec),
                process.handled(stop.on_signal),
                self._observers(trackers),
            ):
                self._tune()
        except KeyboardInterrupt:  # the second one
            if stop.signal is None:
                raise
        if stop.error is not None:
            raise self._with_advice(stop.error) from stop.error
        if stop.signal is not None:
            name = signal.Signals(stop.signal).name
            message = f"{name} ended the search; {self._how_to_resume()}"
            raise InterruptedSearchError(message, stop.signal)
        return Results(driver.spec.folder)

    def _with_advice(self, error: TunerError) -> TunerError:
        """`error`, with how to resume once its cause is fixed."""
        if isinstance(error, JournalLostError):
            return JournalLostError(str(error))
        return type(error)(f"{error}; then {self._how_to_resume()}")

    def _how_to_resume(self) -> str:
        return f"go on with: {resume_with(self.driver.spec.folder, self.driver.spec.trainable)}"

    @contextmanager
    def _observers(self, trackers: list[Tracker]) -> Iterator[None]:
        """Notify the observers of every event; close them at the end."""
        driver = self.driver
        spec, history = driver.spec, driver.history
        self._progress = progress = Progress(
            history,
            TimeLeft.of(spec, history),
            metric=spec.objective.metric,
            each=reserves(spec.resources),
            clock=driver.journal.clock,
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
            driver.observers = [
                TensorBoardWriter(spec, history),
                Retention(spec.folder, history, spec.objective, sync=self._sync),
                progress,
                *trackers,
                notifier,
            ]
            yield

    def _tune(self) -> None:
        """The one call of `tune.run`."""
        from ray import tune

        driver, spec, is_joined = self.driver, self.driver.spec, cluster.is_joined()
        slots = cluster.slots(spec.resources)
        concurrent = min(slots, spec.max_concurrent or slots)
        driver.restore(slots=concurrent)
        if self._resumed:
            sweep(driver.folder, driver.history.trials.values())
        watch = ray_compat.WorkerWatch(_PATIENCE * spec.timeouts.report_s)
        if is_shared():
            watch.start_s = math.inf  # it may wait for a GPU that another search has
        driver.journal_start(resumed=self._resumed)
        # The nodes of a joined cluster come and go
        fits = cluster.room(spec) if is_joined else lambda: slots
        self._most_pending = UNBOUNDED if is_joined else slots
        driver.begin(self._assignments(), fits=fits)
        # At most the slots: Tune would reserve resources for more, and start new workers there
        os.environ[_MAX_PENDING] = str(driver.steering.at_most(self._most_pending))
        with (
            self._end_journaled(),
            tune_arguments.ray_files(driver.folder) as files,
            ray_compat.keep_workers(here=not is_joined, spare=driver.steering.spare),
            ray_compat.watched_workers(watch),
        ):
            tune.run(
                tune_arguments.tune_trainable(spec),
                name="tune",
                metric=spec.objective.metric,
                mode=spec.objective.mode,
                num_samples=-1,  # the driver decides when there are no more
                search_alg=TuneSearcher(driver),
                scheduler=driver.scheduler,
                stop=tune_arguments.StopAll(driver.is_over),
                callbacks=[
                    Recorder(driver, call_of=watch.call_of),
                    Waiting(partial(cluster.shortage, spec.resources)),
                ],
                progress_reporter=tune_arguments.progress_reporter(),
                storage_path=files,
                reuse_actors=True,
                raise_on_failed_trial=False,
                verbose=0,
            )

    def _adapt(self) -> None:
        """Adapt to a spec that a control has changed."""
        driver = self.driver
        self._progress.expect(TimeLeft.of(driver.spec, driver.history))
        if (controller := driver.scheduler.controller) is not None:
            paused = driver.history.steered.paused
            most = 0 if paused else driver.steering.at_most(self._most_pending)
            ray_compat.limit_pending(controller, most)

    def _assignments(self) -> Iterator[Assignment]:
        """The assignments with which unfinished trials go on."""
        driver = self.driver
        runs_on = tune_arguments.trial_class(driver.spec).runs_on if self._resumed else False
        for trial in driver.unfinished(runs_on=runs_on):
            assignment = assignment_of(driver.folder, trial)
            if assignment.checkpoint is None and trial.last_epoch in driver.lengths.before:
                message = "trial %s stays as it was: it has no checkpoint to go on from"
                _log.warning(message, trial.trial_id)
                driver.end(trial.trial_id, COMPLETED, done=True)
            else:
                yield assignment

    @contextmanager
    def _end_journaled(self) -> Iterator[None]:
        """Journal how `tune.run` ends. Raises ExperimentError if it failed."""
        from ray.tune import TuneError

        driver, status = self.driver, FAILED
        try:
            with driver.steering.listening():
                yield
            status = COMPLETED if driver.stop.error is None else FAILED
        except TuneError as error:
            raise ExperimentError(f"Ray Tune failed: {error}") from error
        finally:
            driver.finish(status if driver.stop.signal is None else INTERRUPTED)
        if (cause := driver.error) is not None:
            raise self._with_advice(cause) from cause
