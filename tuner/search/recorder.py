"""Turns Ray Tune's callbacks into events: first the journal, then the observers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ray
from ray.exceptions import RayError
from ray.tune import Callback
from ray.tune.experiment import Trial

from tuner import ray_compat
from tuner.errors import ExperimentError, JournalError, StorageError
from tuner.experiment.events import (
    CHECKPOINT,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    RESULT,
    RUNNING,
    STOPPED,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.experiment.history import History
from tuner.experiment.journal import Journal
from tuner.experiment.trials import TrialRecord
from tuner.search.deaths import error_of, failure_of
from tuner.search.retries import Retries
from tuner.trial.failures import STORAGE, Failure
from tuner.trial.trainable import REPORT, SAVE_NOW

Observer = Callable[[Event], object]

_log = logging.getLogger(__name__)


class Recorder(Callback):
    """Writes each event of each trial once: to the journal, then to `history`, then to observers.

    `error` is set if the journal, or a trial's files, could not be written: the driver then ends
    the search, since no decision may act on what is not recorded, and no trial is to blame. An
    epoch that is run again after a resume, because its checkpoint was not yet written, is not
    journaled twice. is_stopped: whether the scheduler has stopped a trial; forecasts: what it
    expected of one, by epoch, if it tells. settle(trial_id, kind, again): called for each failed
    trial, with the kind of failure and whether it is tried again. call_of(error): what the worker
    had been asked whose death that is; one that had not answered for `report_timeout_s` seconds has
    hung. leaving(trial_id): of a trial that ends because somebody asked for it, the status that it
    gets, and which control asked; INTERRUPTED for one that goes on later. epochs: of a whole trial,
    if known. is_over: whether the search ends now, and every trial with what it has reported.
    """

    def __init__(
        self,
        journal: Journal,
        history: History,
        observers: Sequence[Observer],
        *,
        is_stopped: Callable[[str], bool],
        settle: Callable[[str, str, bool], None],
        call_of: Callable[[BaseException | None], ray_compat.Call | None] = lambda error: None,
        report_timeout_s: float = math.inf,
        forecasts: Callable[[str], dict[str, dict[str, float]]] = lambda trial_id: {},
        leaving: Callable[[str], tuple[str, str] | None] = lambda trial_id: None,
        epochs: int | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.is_stopped = is_stopped
        self.error: ExperimentError | None = None
        self._journal = journal
        self._history = history
        self._observers = observers
        self._settle = settle
        self._forecasts = forecasts
        self._is_over = is_over
        self._retries = Retries()
        self._failures: dict[str, Failure] = {}
        self._came_to: dict[str, int] = {}  # of trials that run: the last epoch of this process
        self._call_of = call_of
        self._report_timeout_s = report_timeout_s
        self._leaving = leaving
        self._epochs = epochs

    def emit(self, event: str, **fields: Any) -> None:
        """Journal one event, then notify the observers."""
        if self.error is not None:
            return
        try:
            record = self._journal.append(event, **fields)
        except JournalError as error:
            self.error = error
            return
        self._history.apply(record)
        for observer in self._observers:
            observer(record)

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

        control: the id of the one that has ended it. done: it does not go on where trials become
        longer.
        """
        fields: dict[str, Any] = {"control": control} if control else {}
        if done:
            fields["done"] = True
        if failure:
            fields["error"] = {"kind": failure.kind, "message": failure.message}
        if status in (STOPPED, COMPLETED) and (forecasts := self._forecasts(trial_id)):
            fields["forecasts"] = forecasts
        self.emit(TRIAL_ENDED, trial_id=trial_id, status=status, **fields)

    def end_if_over(self, trial: TrialRecord, *, epochs: int | None, runs_on: bool = False) -> bool:
        """Journal the end of a trial that had come to it when its driver was killed.

        epochs: of a whole trial, if known. runs_on: a whole trial had code left to run. Returns
        False for a trial that goes on.
        """
        is_whole = epochs is not None and trial.last_epoch >= epochs
        if trial.done or (is_whole and not runs_on):
            self.end(trial.trial_id, COMPLETED, done=trial.done)
        elif stop := self._history.steered.stops.get(trial.trial_id):
            self.end(trial.trial_id, STOPPED, control=stop.id)
        elif self.is_stopped(trial.trial_id) and not is_whole:
            self.end(trial.trial_id, STOPPED)
        else:
            return False
        return True

    def reopen_failed(self) -> None:
        """Let the trials that have failed go on, also if this driver is killed before they do."""
        for trial in sorted(self._history.of_status(FAILED), key=lambda t: t.trial_id):
            self.end(trial.trial_id, INTERRUPTED)

    def interrupt_running(self) -> None:
        """End the trials that still run as interrupted."""
        for trial in sorted(self._history.of_status(RUNNING), key=lambda t: t.trial_id):
            self.end(trial.trial_id, INTERRUPTED)

    def start(self, trial_id: str, config: dict[str, Any], **known: Any) -> None:
        """Journal that a trial runs, unless it does already. known: what else tells of it."""
        trial = self._history.trials.get(trial_id)
        if trial is None or trial.status != RUNNING:
            fields = {name: value for name, value in known.items() if value is not None}
            self.emit(TRIAL_STARTED, trial_id=trial_id, config=config, **fields)

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
        trial_id = _id(trial)
        report = result[REPORT]
        if report.get("failure"):
            self._failures[trial_id] = Failure(**report["failure"])
            self._checkpoints(trial_id, report.get("checkpoints", ()))
            return
        epoch, metrics = result["training_iteration"], report["metrics"]
        again = epoch <= self._last_epoch(trial_id)
        self._came_to[trial_id] = epoch
        if not again:
            done = {"done": True} if report.get("done") else {}
            self.emit(RESULT, trial_id=trial_id, epoch=epoch, metrics=metrics, **done)
        # Weights that were trained again may have other metrics than the report before the kill
        self._checkpoints(trial_id, report["checkpoints"], {epoch: metrics} if again else {})
        if not report["is_saved"] and (result.get("done") or self._is_over()):
            self._save_now(trial)

    def _save_now(self, trial: Trial) -> None:
        """Let a trial that ends with what it has reported write what it has not, and journal it."""
        trial_id, timeout_s = _id(trial), self._report_timeout_s
        worker = ray_compat.worker_of(trial)
        if worker is None:
            return
        asked = getattr(worker, SAVE_NOW).remote()
        try:
            said = ray.get(asked, timeout=None if math.isinf(timeout_s) else timeout_s)
        except RayError as error:  # the trial has ended well; what it had not saved is lost
            _log.warning("trial %s: its last checkpoint is not written: %s", trial_id, error)
            return
        if failure := said.get("failure"):
            self._failures[trial_id] = Failure(**failure)
            if failure["kind"] == STORAGE:  # the search's, which may end before the trial does
                self._fail(trial, self._failures[trial_id])
        self._checkpoints(trial_id, said.get("checkpoints", ()))

    def _checkpoints(
        self,
        trial_id: str,
        saved: Iterable[dict[str, Any]],
        again: Mapping[int, dict[str, float]] = MappingProxyType({}),
    ) -> None:
        """Journal checkpoints; again: by epoch the metrics of what was trained once more."""
        for one in saved:
            own = {"metrics": again[one["epoch"]]} if one["epoch"] in again else {}
            self.emit(CHECKPOINT, trial_id=trial_id, **one, **own)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial_id = _id(trial)
        ray_compat.forget_metrics(trial)  # the journal has them
        leaving = self._leaving(trial_id)
        if trial_id in self._failures:
            self._fail(trial, self._failures.pop(trial_id))
            return
        self._came_to.pop(trial_id, None)
        if leaving is not None:
            status, control = leaving
            self.end(trial_id, status, control=control)
            if status == INTERRUPTED:
                self._settle(trial_id, "paused", True)
        elif self.is_stopped(trial_id):
            self.end(trial_id, STOPPED)
        else:
            self.end(trial_id, COMPLETED, done=self._is_done(trial_id))

    def _is_done(self, trial_id: str) -> bool:
        """Whether a trial that has completed came to its own end: it said so, or returned early."""
        trial = self._history.trials[trial_id]
        return trial.done or (self._epochs is not None and trial.last_epoch < self._epochs)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial_id = _id(trial)
        ray_compat.forget_metrics(trial)  # the journal has them
        self._start(trial)  # it may have died before that
        error = error_of(trial)
        failure = failure_of(error, self._call_of(error), report_timeout_s=self._report_timeout_s)
        if failure is None:
            self._settle(trial_id, "crash", True)
        else:
            self._fail(trial, failure)

    def _fail(self, trial: Trial, failure: Failure) -> None:
        trial_id = _id(trial)
        if failure.kind == STORAGE:
            self.error = self.error or self._why_lost() or StorageError(failure.message)
            return
        # Epochs that are run again count: what matters is where it died
        came_to = self._came_to.pop(trial_id, trial.config.get("epoch", 0))
        again = self._retries.grants(trial_id, came_to, failure)
        if not again:
            self.end(trial_id, FAILED, failure)
        self._settle(trial_id, failure.kind, again)

    def _why_lost(self) -> JournalError | None:
        """Why the experiment's folder takes nothing more, if it has gone."""
        try:
            self._journal.check()
        except JournalError as error:
            return error
        return None

    def _start(self, trial: Trial) -> None:
        known = {name: trial.config.get(name) for name in ("origin", "seed")}
        self.start(_id(trial), trial.config["config"], **known)

    def _last_epoch(self, trial_id: str) -> int:
        trial = self._history.trials.get(trial_id)
        return trial.last_epoch if trial else 0


def _id(trial: Trial) -> str:
    return str(trial.config["trial_id"])
