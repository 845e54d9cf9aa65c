"""Runs an experiment: one `tune.run`, whose every report is journaled before it has an effect."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import ray_compat, streams
from tuner.cluster import connect as cluster
from tuner.cluster import daemons
from tuner.errors import (
    ExperimentError,
    InterruptedSearchError,
    JournalLostError,
    TunerError,
    UsageError,
)
from tuner.owner import this_owner
from tuner.planning.plan import warnings_of
from tuner.planning.validation import Machine, ValidatedSpec, validate
from tuner.record.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    STOPPED,
)
from tuner.record.files import EXPERIMENT, JOURNAL
from tuner.record.folder import ExperimentFolder, Sync
from tuner.record.history import History, TrialRecord, collector_paused
from tuner.record.journal import Journal
from tuner.reporting.experiment_text import folder_name
from tuner.reporting.plan_text import reserves
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.reporting.time_left import TimeLeft
from tuner.reporting.trackers import Tracker
from tuner.results.results import Results
from tuner.search import leftovers
from tuner.search.provenance import describe
from tuner.search.resuming import (
    Extension,
    as_begun,
    assignment_of,
    finished,
    restored,
    trainable_of,
    unfinished,
)
from tuner.search.retention import Retention
from tuner.search.stopping import EarlyEnd, StopRequest
from tuner.search.warm_start import load_warm_start, warm_start_of
from tuner.spec.by_value import given_again, is_by_value
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.experiment import ExperimentSpec
from tuner.trial.context import Assignment
from tuner.wording import program

if TYPE_CHECKING:
    from tuner.search.recorder import Observer

_log = logging.getLogger(__name__)

DATA = "data_content"  # in experiment.json: a digest of images of the user's own
_UNBOUNDED = 1_000_000
_PATIENCE = 1.5  # times `timeouts.report_s`, by which a worker should have ended itself


def run_experiment(spec: ExperimentSpec) -> Results:
    """Search as `spec` says and return the results; progress goes to stderr.

    Uses the Ray that this process is connected to, or else starts one on this machine for the time
    of the run. Trials that fail do not end it; a warning is logged of what works, but is hardly
    meant. Raises SpecError for a spec that cannot work, UsageError if the experiment exists,
    InterruptedSearchError after SIGINT, SIGTERM or SIGHUP, and ExperimentError for the experiment's
    own faults; what was reported is in the journal.
    """
    if not isinstance(spec, ValidatedSpec):
        spec = validate(spec, machine=_machine())
        for warning in warnings_of(spec):  # the command line, which validates by itself, has too
            _log.warning(warning)
    _pin_data(spec)
    if cluster.is_connected():
        cluster.admit(spec)  # refuses what the cluster cannot run before there is a folder
    warm_start = warm_start_of(spec)  # refuses what does not match before there is a folder
    folder = ExperimentFolder(spec.folder)
    own_data = {DATA: spec.data_content} if spec.data_content else {}
    folder.create({**describe(spec), **own_data}, empty=[JOURNAL])
    if warm_start:
        warm_start.save(spec.folder)
    with _opened(spec, folder) as run:
        return run.search()


def resume_experiment(
    folder: Path | str, *, more: Extension | None = None, trainable: Any = None
) -> Results:
    """Go on with the experiment in `folder` as if it had not been interrupted.

    Finished trials stay as they are; the others continue from their newest whole checkpoint, and
    the trials that had not started yet follow; where nothing is left to do it returns at once.
    `more` extends it. trainable: what the experiment
    trains, where only Python can tell: a function or class of a script or a notebook. Raises as
    `run_experiment` does, UsageError for another trainable than the experiment's or where images
    of the user's own have changed, and SpecError for an experiment.json that cannot run here.
    """
    more, folder = more or Extension(), Path(folder)
    files = ExperimentFolder(folder)
    document = files.document()
    if results := finished(folder, more):
        return results
    recorded = str(document["spec"].get("trainable", IMAGE_CLASSIFIER))
    moved = {
        "name": files.name,
        "storage": files.storage,
        "trainable": trainable_of(recorded, trainable, folder),
    }
    raw = more.applied_to({**as_begun(document["spec"]), **moved})
    spec = validate(raw, source=str(folder / EXPERIMENT), machine=_machine())
    _pin_data(spec)
    if document.get(DATA, spec.data_content) != spec.data_content:
        raise UsageError(
            f"{spec.training.get('dataset')} has other images than when {files.name} began: put "
            "those back, or begin a new search"
        )
    if cluster.is_connected():
        cluster.admit(spec)
    with _opened(spec, files, resumed=True, retry_failed=more.retry_failed) as run:
        if more.changes_the_spec or (trainable is not None and spec.trainable != recorded):
            files.write(EXPERIMENT, {**document, "spec": spec.model_dump(mode="json")})
        return run.search()


def _pin_data(spec: ValidatedSpec) -> None:
    for warning in spec.pin_data():
        _log.warning(warning)


def _machine() -> Machine | None:
    """This machine, unless the search runs on a cluster that is connected already."""
    return None if cluster.is_joined() else Machine.here()


@contextmanager
def _opened(spec: ValidatedSpec, folder: ExperimentFolder, **how: bool) -> Iterator[SearchRun]:
    """A run of an experiment that no other driver has."""
    with folder.held(_log.warning) as sync, Journal.open(folder.path) as journal:
        yield SearchRun(spec, folder, journal, sync, **how)


def _without_widgets() -> None:
    """Let Ray not ask for ipywidgets, which nothing here uses; to be called before it starts."""
    warnings.filterwarnings("ignore", message="IProgress not found")
    logging.getLogger(ray_compat.WIDGETS_LOGGER).setLevel(logging.WARNING)


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
        """Run the search to its end. Raises as `run_experiment` does."""
        _without_widgets()
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
        if is_by_value(self.spec.trainable):
            arguments = f"{str(self.spec.folder)!r}, {given_again(self.spec.trainable)}"
            return f"go on with: tuner.resume_experiment({arguments})"
        return f"go on with: {program()} resume {folder_name(self.spec.folder)}"

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
        from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
        from tuner.search.waiting import Waiting

        spec, elsewhere = self.spec, cluster.is_joined()
        stops = spec.scheduler
        scheduler: Any = stops and stops.build(spec.objective, brackets=spec.brackets)
        if (epochs := spec.stop.patience_epochs) is not None:
            if scheduler is None:
                scheduler = StoppingScheduler(spec.objective, Patience(epochs))
            else:
                scheduler.be_patient(epochs)
        searcher = self._searcher(scheduler)
        if self._resumed:
            leftovers.sweep(self._folder, self.history)
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
