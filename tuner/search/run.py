"""Runs an experiment: one `tune.run`, whose every report is journaled before it has an effect."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import ray_compat
from tuner.cluster import connect as cluster
from tuner.cluster import daemons
from tuner.errors import ExperimentError, InterruptedSearchError
from tuner.owner import this_owner
from tuner.places import storage_of, url_of
from tuner.planning.validation import Machine, validate
from tuner.record.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    STOPPED,
)
from tuner.record.folder import EXPERIMENT, claim, read_document, write_document
from tuner.record.history import TrialRecord, fold
from tuner.record.journal import JOURNAL, Journal, read
from tuner.record.remote.sync import InPlace, InStore, held
from tuner.reporting.experiment_text import folder_name
from tuner.reporting.plan_text import reserves
from tuner.reporting.tally import Tally
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.reporting.terminal import Progress
from tuner.reporting.trackers import Tracker
from tuner.results.results import Results
from tuner.search import silence
from tuner.search.provenance import describe
from tuner.search.resuming import Extension, Past, assignment_of
from tuner.search.retention import Retention
from tuner.search.stopping import Ending
from tuner.search.warm_start import load_warm_start, warm_start_of
from tuner.spec.experiment import ExperimentSpec
from tuner.trial.context import Assignment
from tuner.wording import program

if TYPE_CHECKING:
    from tuner.search.recorder import Observer, Recorder

_log = logging.getLogger(__name__)

_UNBOUNDED = 1_000_000
_RAYS = ".tune-"  # what the folder that Ray Tune wants is called


def run_experiment(spec: ExperimentSpec) -> Results:
    """Search as `spec` says and return the results; progress goes to stderr.

    Uses the Ray that this process is connected to, else starts one on this machine for the time of
    the run. Trials that fail do not end it. Raises SpecError for a spec that cannot work,
    UsageError where the experiment exists, InterruptedSearchError after SIGINT, SIGTERM or SIGHUP,
    and ExperimentError for the experiment's own faults; what was reported is in the journal.
    """
    spec = validate(spec.model_dump(mode="json"), machine=_machine())
    if cluster.is_connected():
        cluster.admit(spec)  # refuses what it cannot run before there is a folder
    warm_start = warm_start_of(spec)  # refuses what cannot be given before there is a folder
    claim(spec.folder, describe(spec), empty=[JOURNAL])
    if warm_start:
        warm_start.save(spec.folder)
    with _held(spec.folder) as (journal, upkeep):
        return _run(spec, journal, Past(), upkeep)


def resume_experiment(folder: Path, *, more: Extension | None = None) -> Results:
    """Go on with the experiment in `folder` as if it had not been interrupted.

    Finished trials stay as they are; the others continue from their newest whole checkpoint, and
    the trials that had not started yet follow. `more` extends it. Raises as `run_experiment`
    does, and SpecError for an experiment.json that cannot be run here.
    """
    more = more or Extension()
    document = read_document(folder / EXPERIMENT)
    place = {"name": folder.resolve().name, "storage": storage_of(folder)}
    raw = more.applied_to({**document["spec"], **place})
    source = str(folder / EXPERIMENT)
    spec = validate(raw, source=source, machine=_machine())
    if cluster.is_connected():
        cluster.admit(spec)
    with _held(folder) as (journal, upkeep):
        if more.changes_the_spec:
            write_document(folder / EXPERIMENT, {**document, "spec": spec.model_dump(mode="json")})
        past = Past.of(read(folder), metric=spec.objective.metric, retry_failed=more.retry_failed)
        return _run(spec, journal, past, upkeep)


@contextmanager
def _held(folder: Path) -> Iterator[tuple[Journal, InPlace | InStore]]:
    """The journal and the upkeep of an experiment that no other driver has."""
    with held(folder, say=_log.warning) as upkeep, Journal.open(folder) as journal:
        yield journal, upkeep


def _run(spec: ExperimentSpec, journal: Journal, past: Past, upkeep: InPlace | InStore) -> Results:
    """Set up what watches the search, search, and tell how it ended."""
    silence.without_widgets()
    metric, mode = spec.objective.metric, spec.objective.mode
    trials = past.history.trials
    tensorboard = TensorBoardWriter(spec, earlier=trials)
    retention = Retention(
        spec.folder, metric=metric, mode=mode, earlier=trials, remove=upkeep.remove
    )
    trackers = [Tracker(name, spec, earlier=past.history) for name in spec.log]
    ending = Ending(spec.time_budget_s)
    try:
        with ending, upkeep.during(ending.because), cluster.connect(spec=spec):
            slots = cluster.slots(spec.resources)
            slots = min(slots, spec.max_concurrent or slots)
            tally = Tally.of(spec, slots=slots)
            progress = Progress(
                tally, each=reserves(spec.resources), earlier=past.events, clock=journal.clock
            )

            def advice_at_exit() -> str:
                progress.close()
                return _go_on(spec)

            observers: list[Observer] = [tensorboard, retention, progress, *trackers]
            with contextlib.ExitStack() as at_the_end:
                at_the_end.callback(progress.close)
                for tracker in trackers:
                    at_the_end.callback(tracker.close)
                at_the_end.enter_context(daemons.exit_advice(advice_at_exit))
                _search(spec, journal, past, ending, observers, slots)
    except KeyboardInterrupt:  # the second one
        if ending.signal is None:
            raise
    if ending.error is not None:
        raise type(ending.error)(f"{ending.error}; then {_go_on(spec)}") from ending.error
    if ending.signal is not None:
        name = signal.Signals(ending.signal).name
        raise InterruptedSearchError(f"{name} ended the search; {_go_on(spec)}", ending.signal)
    return Results(spec.folder)


def _go_on(spec: ExperimentSpec) -> str:
    return f"go on with: {program()} resume {folder_name(spec.folder)}"


def _search(
    spec: ExperimentSpec,
    journal: Journal,
    past: Past,
    ending: Ending,
    observers: list[Observer],
    slots: int,
) -> None:
    """The one call of `tune.run`, and the events around it."""
    from ray import tune

    from tuner.search.recorder import Recorder
    from tuner.search.schedulers._stopping import InOrder, StopAll
    from tuner.search.trainable import tune_trainable
    from tuner.search.trial_source import TrialSource, replay

    def settle(trial_id: str, kind: str, again: bool) -> None:
        if again:
            source.retry(_continued(spec, fold(read(spec.folder)).trials[trial_id]))
        else:
            source.give_up(trial_id, kind)

    scheduler = None
    if spec.scheduler:
        scheduler = spec.scheduler.build(spec.objective, brackets=spec.brackets)
    stopped = scheduler.stopped if scheduler else set()
    recorder = Recorder(
        journal,
        observers,
        stopped=stopped,
        epochs=past.last_epochs(),
        settle=settle,
        report_timeout_s=spec.timeouts.report_s,
    )
    recorder.emit(EXPERIMENT_STARTED, resumed=past.resumed, owner=this_owner())
    if scheduler:
        for trial_id, epoch, metrics in past.reports():
            scheduler.record(trial_id, epoch, metrics)
    # Not one more than can run: Tune would reserve a place for it, and fill it with a new worker.
    # Of a cluster, whose nodes come and go, the source alone knows how many that is.
    there = cluster.is_joined()
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(_UNBOUNDED if there else slots)
    strategy = spec.search.build(
        spec.seed, objective=spec.objective, max_t=spec.epochs, slots=slots
    )
    if warm_start := load_warm_start(spec):
        warm_start.add_to(strategy)
    replay(strategy, past.events)
    source = TrialSource(
        strategy,
        total=spec.trials,
        limit=cluster.room(spec) if there else lambda: slots,
        taken=past.history.trials,
        unfinished=_unfinished(spec, past, recorder, stopped),
    )
    status = FAILED
    try:
        with (
            tempfile.TemporaryDirectory(dir=_files_of_ray(spec), prefix=_RAYS) as ray_files,
            ray_compat.keep_workers(here=not there),
        ):
            tune.run(
                tune_trainable(spec),
                name="tune",
                metric=spec.objective.metric,
                mode=spec.objective.mode,
                num_samples=-1,  # the source knows when it is at its end
                search_alg=source,
                scheduler=scheduler or InOrder(),
                stop=StopAll(lambda: ending.has_come() or recorder.error is not None),
                callbacks=[recorder],
                progress_reporter=silence.reporter(),
                storage_path=ray_files,
                reuse_actors=True,
                raise_on_failed_trial=False,
                verbose=0,
            )
        status = COMPLETED if ending.error is None else FAILED
    except tune.TuneError as error:
        raise ExperimentError(f"Ray Tune failed: {error}") from error
    finally:
        recorder.interrupt_live()
        if ending.signal is not None:
            status = INTERRUPTED
        recorder.emit(EXPERIMENT_ENDED, status=status)
    if recorder.error is not None:
        raise type(recorder.error)(f"{recorder.error}; then {_go_on(spec)}") from recorder.error


def _files_of_ray(spec: ExperimentSpec) -> str:
    """Where Ray Tune may write: of a cluster whose nodes share a folder, each must see it; what a
    kill has left there is removed.
    """
    if not cluster.is_joined() or url_of(spec.folder):
        return cluster.scratch_folder()
    for left in spec.folder.glob(f"{_RAYS}*"):
        shutil.rmtree(left, ignore_errors=True)
    return str(spec.folder.resolve())


def _unfinished(
    spec: ExperimentSpec, past: Past, recorder: Recorder, stopped: set[str]
) -> list[Assignment]:
    """Where the trials that had not ended go on; ends those that had come to their end."""
    assignments = []
    for trial in past.unfinished():
        if spec.epochs is not None and trial.last_epoch >= spec.epochs:
            recorder.end(trial.trial_id, COMPLETED)
        elif trial.trial_id in stopped:
            recorder.end(trial.trial_id, STOPPED)
        else:
            assignments.append(_continued(spec, trial))
    return assignments


def _continued(spec: ExperimentSpec, trial: TrialRecord) -> Assignment:
    """Where `trial` goes on; what is wrong with its newest checkpoint is told."""
    assignment, warnings = assignment_of(spec.folder, trial)
    for warning in warnings:
        _log.warning("%s; going back to the one before", warning)
    return assignment


def _machine() -> Machine | None:
    """This machine, unless the search runs on a cluster that is connected already."""
    return None if cluster.is_joined() else Machine.here()
