"""Ray Tune as a client of the driver: its searcher gets trials, its callbacks record them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from tuner import ray_compat
from tuner.errors import JournalError, StorageError
from tuner.experiment import events
from tuner.experiment.files import check_disk
from tuner.search.driver import Driver
from tuner.search.retention import build_assignment, remove_leftovers
from tuner.trial.failures import STORAGE, Failure
from tuner.trial.trainable import REPORT, SAVE_NOW
from tuner.trial.trial_process import is_recycled
from tuner.trial.worker_death import build_death_failure

_IDLE_S = 0.1  # a turn of Tune's loop while nothing runs

_log = logging.getLogger(__name__)


class TuneSearcher(Searcher):
    """Gives Tune the trials of `driver`, and translates Ray's ids to ours."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver
        self._ids: dict[str, str] = {}  # Ray's trial id -> ours

    def suggest(self, trial_id: str) -> Any:
        """The next assignment as a mapping; None while enough trials are live; else FINISHED."""
        driver = self._driver
        queue = self._driver.queue
        driver.steering.answer_requests()  # where Tune does nothing else, too
        if driver.is_over() and not queue.live:
            return Searcher.FINISHED
        if queue.is_full:
            return None
        assignment = queue.pop_next()
        if assignment is None:
            # A live trial may have to be run again, so Tune must go on asking
            return Searcher.FINISHED if queue.at_end and not queue.live else None
        self._ids[trial_id] = assignment.trial_id
        return asdict(assignment)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self._driver.queue.report(self._ids[trial_id], result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        failed = error or "tuner/failure/kind" in (result or {})
        self._driver.queue.release(self._ids.pop(trial_id), result, failed=failed)

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: Ray's snapshots are not used, since the journal has all a resume needs."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""


# What user code comes to whose own files the storage does not take
_OF_FULL_DISKS = ("exception", "crash")


class Recorder(Callback):
    """Records Tune's trials in `driver`, each event once. call_of(error): the last worker call."""

    def __init__(
        self,
        driver: Driver,
        *,
        call_of: Callable[
            [BaseException | None], ray_compat.Call | None
        ] = lambda error: None,
    ) -> None:
        self._driver = driver
        self._history = driver.history
        self._call_of = call_of
        self._retries = Retries()
        self._failures: dict[str, Failure] = {}
        # Of trials that run: the last epoch of this process
        self._came_to: dict[str, int] = {}

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._driver.steering.answer_requests()
        if self._history.steered.paused and not self._history.counts[events.RUNNING]:
            time.sleep(_IDLE_S)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self._start(trial)

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        trial_id = _read_trial_id(trial)
        report = result[REPORT]
        if report.get("failure"):
            self._failures[trial_id] = Failure(**report["failure"])
            self._record_checkpoints(trial_id, report.get("checkpoints", ()))
            return
        epoch = result["training_iteration"]
        metrics = report["metrics"]
        record = self._history.trials.get(trial_id)  # None if the journal has failed
        # Was not saved before a kill
        again = record is not None and epoch <= record.last_epoch
        self._came_to[trial_id] = epoch
        scheduler = self._driver.scheduler
        if trial_id not in scheduler.stopped:
            # Tune passes a report that ends its trial to none
            scheduler.record(trial_id, epoch, metrics)
            scheduler.stopped.discard(trial_id)
        if not again:
            done = {"done": True} if report.get("done") else {}
            self._driver.emit(
                events.RESULT, trial_id=trial_id, epoch=epoch, metrics=metrics, **done
            )
        saved = report["checkpoints"]
        if again:
            # These weights may have other metrics than the report before the kill
            saved = [
                {**c, "metrics": metrics} if c["epoch"] == epoch else c for c in saved
            ]
        self._record_checkpoints(trial_id, saved)
        if not report["is_saved"] and (result.get("done") or self._driver.is_over()):
            self._save_now(trial)

    def _save_now(self, trial: Trial) -> None:
        """Let a trial that ends write and journal the checkpoint that it has not saved yet."""
        trial_id = _read_trial_id(trial)
        timeout_s = self._driver.spec.timeouts.report_s
        worker = ray_compat.find_worker(trial)
        if worker is None:
            return
        call = getattr(worker, SAVE_NOW).remote()
        try:
            answer = ray.get(call, timeout=timeout_s)
        except RayError as error:
            # The trial has ended well; what it had not saved is lost
            _log.warning(
                "trial %s: its last checkpoint is not written: %s", trial_id, error
            )
            return
        if failure := answer.get("failure"):
            self._failures[trial_id] = Failure(**failure)
            if failure["kind"] == STORAGE:
                # The search's, which may end before the trial does
                self._record_failure(trial, self._failures[trial_id])
        self._record_checkpoints(trial_id, answer.get("checkpoints", ()))

    def _record_checkpoints(
        self, trial_id: str, saved: Iterable[dict[str, Any]]
    ) -> None:
        for checkpoint in saved:
            self._driver.emit(events.CHECKPOINT, trial_id=trial_id, **checkpoint)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial_id = _read_trial_id(trial)
        driver = self._driver
        ray_compat.drop_metrics(trial)  # the journal has them
        if trial_id not in self._history.trials:
            # The journal has failed, and the search ends
            return
        leaving = driver.steering.pop_requested_end(trial_id)
        if trial_id in self._failures:
            self._record_failure(trial, self._failures.pop(trial_id))
            return
        self._came_to.pop(trial_id, None)
        if leaving is not None:
            status, control = leaving
            driver.end(trial_id, status, control=control)
            if status == events.INTERRUPTED:
                self._retry(trial_id)
        elif trial_id in driver.scheduler.stopped:
            driver.end(trial_id, events.STOPPED)
        else:
            record = self._history.trials[trial_id]
            epochs = driver.spec.epochs
            returned_early = epochs is not None and record.last_epoch < epochs
            driver.end(trial_id, events.COMPLETED, done=record.done or returned_early)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial_id = _read_trial_id(trial)
        ray_compat.drop_metrics(trial)  # the journal has them
        self._start(trial)  # it may have died before that
        if trial_id not in self._history.trials:
            # The journal has failed, and the search ends
            return
        error = load_error(trial)
        timeout_s = self._driver.spec.timeouts.report_s
        failure = classify_failure(
            error, self._call_of(error), report_timeout_s=timeout_s
        )
        if failure is None:
            self._retry(trial_id)
        else:
            self._record_failure(trial, failure)

    def _record_failure(self, trial: Trial, failure: Failure) -> None:
        trial_id = _read_trial_id(trial)
        driver = self._driver
        if failure.kind in _OF_FULL_DISKS:
            try:
                check_disk(driver.folder.path)
            except StorageError as error:
                failure = Failure(STORAGE, str(error))
        if failure.kind == STORAGE:
            try:
                driver.journal.check()
            except JournalError as error:  # the experiment's folder has gone
                driver.error = driver.error or error
            driver.error = driver.error or StorageError(failure.message)
            return
        # Epochs that are run again count: what matters is where it died
        came_to = self._came_to.pop(trial_id, trial.config.get("epoch", 0))
        if self._retries.should_retry(trial_id, came_to, failure):
            self._retry(trial_id)
            return
        driver.end(trial_id, events.FAILED, failure)
        remove_leftovers(driver.folder, [self._history.trials[trial_id]])
        driver.queue.report_failure(trial_id, failure.kind)

    def _retry(self, trial_id: str) -> None:
        trial = self._history.trials[trial_id]
        folder = self._driver.folder
        remove_leftovers(folder, [trial])
        self._driver.queue.retry(build_assignment(folder, trial))

    def _start(self, trial: Trial) -> None:
        details = {name: trial.config.get(name) for name in ("origin", "seed")}
        self._driver.start(_read_trial_id(trial), trial.config["config"], **details)


def _read_trial_id(trial: Trial) -> str:
    return str(trial.config["trial_id"])


_MOST_CRASHES = 2  # of a trial that is tried again after each


def load_error(trial: Trial) -> BaseException | None:
    """The cause of the trial's death, from the file that Ray has just written."""
    try:
        error = cloudpickle.loads(Path(trial.pickled_error_file or "").read_bytes())
    except Exception:  # not written, or not to be read
        return None
    return error if isinstance(error, BaseException) else None


def classify_failure(
    error: BaseException | None,
    call: ray_compat.Call | None,
    *,
    report_timeout_s: float,
) -> Failure | None:
    """The failure, or None if the worker ended between trials. call: its last one, if known."""
    hung_between = call is not None and call.ended and call.method == ray_compat.RESET
    if is_recycled(error) or hung_between:
        return None
    failure = build_death_failure(error)
    if failure.kind != "crash" or call is None:
        return failure
    starting = call.method in (ray_compat.START, ray_compat.RESET)
    what = f"{'did not start' if starting else 'no report'} in {report_timeout_s:g} s"
    if call.ended:
        return Failure(
            "timeout", f"{what}, and its process did not end itself: the driver did"
        )
    if time.monotonic() - call.made >= report_timeout_s:
        # A worker that hangs ends itself
        return Failure("timeout", f"{what}; its log shows where it hung")
    return failure


class Retries:
    """Retries after each lost node, two crashes in different epochs, and one unusable device."""

    def __init__(self) -> None:
        # trial_id -> epochs
        self._crashes: defaultdict[str, set[int]] = defaultdict(set)
        self._poisoned: set[str] = set()

    def should_retry(self, trial_id: str, epoch: int, failure: Failure) -> bool:
        """Whether the trial, whose last epoch was `epoch`, goes on after `failure`."""
        if failure.kind == "node_lost":
            return True
        if failure.poisoned:
            first = trial_id not in self._poisoned
            self._poisoned.add(trial_id)
            return first
        epochs = self._crashes[trial_id]
        if failure.kind != "crash" or epoch in epochs:
            return False
        epochs.add(epoch)
        return len(epochs) <= _MOST_CRASHES
