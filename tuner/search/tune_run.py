"""One driver's run of an experiment with Ray Tune: one `tune.run`."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from ray import tune
from ray.tune import ProgressReporter, Stopper, TuneError

from tuner import ray_compat
from tuner.cluster import connect as cluster
from tuner.cluster.capacity import find_shortage
from tuner.cluster.local_ray import add_exit_advice
from tuner.errors import (
    ExperimentError,
    InterruptedSearchError,
    JournalLostError,
    TunerError,
)
from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.reporting.commands import format_resume_command
from tuner.reporting.notifier import Notifier
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.reporting.trackers import Tracker
from tuner.search.driver import UNBOUNDED, Driver
from tuner.search.preparation import Plan
from tuner.search.retention import Retention, build_assignment, remove_leftovers
from tuner.search.shortage import Waiting
from tuner.search.tune_callbacks import Recorder, TuneSearcher
from tuner.signals import catch_signals
from tuner.spec.command import Command
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.loading import is_learner, is_rays_class, load_trainable
from tuner.spec.sections import Resources
from tuner.streams import ignore_stderr_errors
from tuner.trial.checkpoints import SaveRules
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.gpus import is_shared
from tuner.trial.process_trials import ClassTrial, CommandTrial, FunctionTrial
from tuner.trial.trainable import LearnerTrial, Trial
from tuner.trial.trial_process import read_latest_output

_log = logging.getLogger(__name__)

_RAY_FILES = ".tune-"  # the prefix of the folder that Ray Tune insists on
_MAX_PENDING = "TUNE_MAX_PENDING_TRIALS_PG"
_PATIENCE = 1.5  # times `timeouts.report_s`, by which a worker should have ended itself


class TuneRun:
    """One driver's run of an experiment with Ray Tune, from its start or its resume to its end."""

    def __init__(self, driver: Driver, *, resumed: bool = False) -> None:
        self.driver = driver
        self._resumed = resumed

    def run(self) -> Results:
        """Run the search to its end. Raises as `run_experiment` does."""
        ray_compat.silence_widgets()
        driver = self.driver
        stop = self.driver.stop
        driver.on_change = self._apply_spec
        trackers = [
            Tracker(name, driver.spec, driver.history) for name in driver.spec.log
        ]
        try:
            with (
                ignore_stderr_errors(),
                driver.sync.keep_synced(driver.journal, stop.fail),
                cluster.connect(spec=driver.spec, trials=driver.total),
                catch_signals(stop.receive_signal),
                self._connect_observers(trackers),
            ):
                self._run_tune()
        except KeyboardInterrupt:  # the second one
            if stop.signal is None:
                raise
        if stop.error is not None:
            raise self._add_advice(stop.error) from stop.error
        if stop.signal is not None:
            name = signal.Signals(stop.signal).name
            message = f"{name} ended the search; {self._format_resume_advice()}"
            raise InterruptedSearchError(message, stop.signal)
        return Results(driver.spec.folder)

    def _add_advice(self, error: TunerError) -> TunerError:
        """`error`, with how to resume once its cause is fixed."""
        is_lost = isinstance(error, JournalLostError)
        return type(error)(
            f"{error}" if is_lost else f"{error}; then {self._format_resume_advice()}"
        )

    def _format_resume_advice(self) -> str:
        spec = self.driver.spec
        return f"go on with: {format_resume_command(spec.folder, spec.trainable)}"

    @contextmanager
    def _connect_observers(self, trackers: list[Tracker]) -> Iterator[None]:
        """Notify the observers of every event; close them at the end."""
        driver = self.driver
        spec = driver.spec
        history = driver.history
        self._progress = progress = Progress(
            spec, history, skipped=driver.skipped, clock=driver.journal.clock
        )
        notifier = Notifier(spec, history)

        def close_and_advise() -> str:
            progress.close()
            notifier.close()
            return self._format_resume_advice()

        with ExitStack() as at_the_end:
            for close in (
                progress.close,
                *(tracker.close for tracker in trackers),
                notifier.close,
            ):
                at_the_end.callback(close)
            at_the_end.enter_context(add_exit_advice(close_and_advise))
            driver.observers = [
                TensorBoardWriter(spec, history),
                Retention(spec.folder, history, spec.objective, sync=driver.sync),
                progress,
                *trackers,
                notifier,
            ]
            yield

    def _run_tune(self) -> None:
        driver = self.driver
        spec = self.driver.spec
        is_joined = cluster.is_joined()
        slots = cluster.count_slots(spec.resources)
        driver.restore()
        if self._resumed:
            remove_leftovers(driver.folder, driver.history.trials.values())
        watch = ray_compat.WorkerWatch(_PATIENCE * spec.timeouts.report_s)
        if is_shared():
            watch.start_s = math.inf  # it may wait for a GPU that another search has
        driver.record_search_start(resumed=self._resumed)
        # The nodes of a joined cluster come and go
        fits = (
            cluster.track_room(driver.plan.trained_spec) if is_joined else lambda: slots
        )
        self._most_pending = UNBOUNDED if is_joined else slots
        driver.begin(self._generate_assignments(), fits=fits)
        # At most the slots: Tune would reserve resources for more, and start new workers there
        os.environ[_MAX_PENDING] = str(
            driver.steering.apply_max_concurrent(self._most_pending)
        )
        with (
            self._end_journaled(),
            create_ray_folder(driver.folder) as files,
            ray_compat.skip_usage_tags(),
            ray_compat.keep_workers(
                here=not is_joined, spare=driver.steering.count_spare_workers
            ),
            ray_compat.watch_workers(watch),
        ):
            tune.run(
                build_trainable(driver.plan),
                name="tune",
                metric=spec.objective.metric,
                mode=spec.objective.mode,
                num_samples=-1,  # the driver decides when there are no more
                search_alg=TuneSearcher(driver),
                scheduler=driver.scheduler,
                stop=StopAll(driver.is_over),
                callbacks=[
                    Recorder(driver, call_of=watch.find_call),
                    Waiting(
                        partial(find_shortage, spec.resources),
                        starting=lambda: watch.starting,
                        output=partial(
                            read_latest_output, spec.folder, since=time.time()
                        ),
                        show=self._progress.show,
                    ),
                ],
                progress_reporter=_SilentReporter(),
                storage_path=files,
                reuse_actors=True,
                raise_on_failed_trial=False,
                verbose=0,
            )

    def _apply_spec(self) -> None:
        """Adapt to a spec that a control has changed."""
        driver = self.driver
        self._progress.update_spec(driver.spec, driver.skipped)
        if (controller := driver.scheduler.controller) is not None:
            paused = driver.history.steered.paused
            most = (
                0
                if paused
                else driver.steering.apply_max_concurrent(self._most_pending)
            )
            ray_compat.limit_pending(controller, most)

    def _generate_assignments(self) -> Iterator[Assignment]:
        driver = self.driver
        runs_on = choose_trial_class(driver.spec).runs_on if self._resumed else False
        for trial in driver.iterate_unfinished(runs_on=runs_on):
            assignment = build_assignment(driver.folder, trial)
            if (
                assignment.checkpoint is None
                and trial.last_epoch in driver.lengths.before
            ):
                message = "trial %s stays as it was: it has no checkpoint to go on from"
                _log.warning(message, trial.trial_id)
                driver.end(trial.trial_id, COMPLETED, done=True)
            else:
                yield assignment

    @contextmanager
    def _end_journaled(self) -> Iterator[None]:
        """Journal how `tune.run` ends. Raises ExperimentError if it failed."""
        driver = self.driver
        status = FAILED
        try:
            with driver.steering.receive_requests():
                yield
            status = COMPLETED if driver.stop.error is None else FAILED
        except TuneError as error:
            raise ExperimentError(f"Ray Tune failed: {error}") from error
        finally:
            driver.record_search_end(
                status if driver.stop.signal is None else INTERRUPTED
            )
        if (cause := driver.error) is not None:
            raise self._add_advice(cause) from cause


def build_trainable(plan: Plan) -> Any:
    """The trainable for `tune.run`, with the resources of a trial."""
    spec = plan.spec
    rungs = spec.scheduler.rungs() if spec.scheduler else ()
    saves = SaveRules(
        every_s=spec.checkpoints.every_s,
        rungs=frozenset(map(math.ceil, rungs)),  # the first epoch that has come to each
    )
    context = TrialContext(
        location=spec.location,
        trainable=spec.trainable,
        constants=plan.declaration.constants(
            plan.trained_spec, here=not cluster.is_joined()
        ),
        objective=spec.objective,
        epochs=spec.epochs,
        resources=spec.resources,
        timeouts=spec.timeouts,
        sys_path=tuple(map(os.path.abspath, sys.path)),  # a trial works elsewhere
        directory=os.getcwd(),
        saves=saves,
    )
    trial = tune.with_parameters(choose_trial_class(spec), context=context)
    return tune.with_resources(trial, build_placement(spec.resources))


def choose_trial_class(spec: ExperimentSpec) -> type[Trial]:
    """The class of the trials of `spec`, by the kind of its trainable."""
    if isinstance(spec.trainable, Command):
        return CommandTrial
    if spec.ships or is_learner(trainable := load_trainable(spec.trainable)):
        return LearnerTrial
    return ClassTrial if is_rays_class(trainable) else FunctionTrial


def build_placement(resources: Resources) -> tune.PlacementGroupFactory:
    """What a trial reserves: a bundle for each rank, packed, after an empty one if several."""
    bundle = {"CPU": resources.cpus, "GPU": resources.gpus}
    if resources.ranks == 1:
        return tune.PlacementGroupFactory([bundle])
    return tune.PlacementGroupFactory(
        [{}, *[bundle] * resources.ranks], strategy="PACK"
    )


class StopAll(Stopper):
    """Ends every trial as soon as `is_over()`; never a single one."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._is_over()

    def __reduce__(self) -> tuple[type[StopAll], tuple[Callable[[], bool]]]:
        # Ray pickles it into snapshots that nobody reads; `is_over` does not pickle
        return StopAll, (bool,)


class _SilentReporter(ProgressReporter):
    """Reports nothing; Ray's clears the output of a notebook."""

    def should_report(self, trials: object, done: bool = False) -> bool:
        return False


@contextmanager
def create_ray_folder(experiment: ExperimentFolder) -> Iterator[str]:
    """A folder for Ray Tune's files, on a cluster in the experiment's; removes old ones."""
    folder = cluster.find_scratch_folder()
    if cluster.is_joined() and not experiment.is_remote:
        for stale in experiment.path.glob(f"{_RAY_FILES}*"):
            shutil.rmtree(stale, ignore_errors=True)
        folder = str(experiment.path.resolve())
    with tempfile.TemporaryDirectory(dir=folder, prefix=_RAY_FILES) as path:
        yield path
