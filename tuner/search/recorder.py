"""Turns what Ray Tune tells its callbacks into events: first the journal, then the observers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.tune import Callback
from ray.tune.experiment import Trial

from tuner import ray_compat
from tuner.errors import ExperimentError, JournalError, StorageError
from tuner.record.events import (
    CHECKPOINT,
    COMPLETED,
    FAILED,
    INTERRUPTED,
    RESULT,
    STOPPED,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.record.journal import Journal
from tuner.search.retries import Retries
from tuner.trial.failures import STORAGE, Failure
from tuner.trial.recycling import is_recycled
from tuner.trial.trainable import REPORT
from tuner.trial.worker_death import death_of

Observer = Callable[[Event], object]


class Recorder(Callback):
    """Writes each event of each trial, once.

    `error` is set where the journal, or a trial's files, could not be written: the driver then ends
    the search, since a decision must not act on what is not recorded, and no trial is to blame.
    An epoch that is run again after a resume, because its checkpoint was not yet written, is not
    journaled twice: `epochs` has the last one of each trial. `stopped` is filled by the scheduler.
    A trial that dies after `report_timeout_s` seconds of silence has hung.
    `settle(trial_id, kind, again)` is told of each failed trial what it failed of, and whether it
    is tried again.
    """

    def __init__(
        self,
        journal: Journal,
        observers: Sequence[Observer],
        *,
        stopped: set[str],
        epochs: Mapping[str, int],
        settle: Callable[[str, str, bool], None],
        report_timeout_s: float = math.inf,
    ) -> None:
        self._journal = journal
        self._observers = observers
        self._stopped = stopped
        self._epochs = dict(epochs)
        self._settle = settle
        self._retries = Retries()
        self._failures: dict[str, Failure] = {}
        self._live: set[str] = set()
        self._report_timeout_s = report_timeout_s
        self._heard: dict[str, float] = {}  # trial_id -> when it last said something
        self.error: ExperimentError | None = None

    def emit(self, event: str, **fields: Any) -> None:
        """Journal one event, then show it to the observers."""
        if self.error is not None:
            return
        try:
            record = self._journal.append(event, **fields)
        except JournalError as error:
            self.error = error
            return
        for observer in self._observers:
            observer(record)

    def interrupt_live(self) -> None:
        """End the trials that are still live as interrupted."""
        for trial_id in sorted(self._live):
            self.end(trial_id, INTERRUPTED)

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
        self._heard[trial_id] = time.monotonic()
        report = result[REPORT]
        if report.get("failure"):
            self._failures[trial_id] = Failure(**report["failure"])
            return
        epoch = result["training_iteration"]
        if epoch > self._epochs.get(trial_id, 0):
            self._epochs[trial_id] = epoch
            self.emit(RESULT, trial_id=trial_id, epoch=epoch, metrics=report["metrics"])
        if report["checkpoint"]:
            self.emit(CHECKPOINT, trial_id=trial_id, **report["checkpoint"])

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial_id = _id(trial)
        ray_compat.forget_metrics(trial)  # the journal has them
        if trial_id in self._failures:
            self._fail(trial_id, self._failures.pop(trial_id))
        else:
            self.end(trial_id, STOPPED if trial_id in self._stopped else COMPLETED)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        trial_id = _id(trial)
        ray_compat.forget_metrics(trial)  # the journal has them
        error = _error_of(trial)
        if trial_id not in self._heard:  # it died before it started
            self._start(trial)
        if is_recycled(error):
            self._settle(trial_id, "crash", True)
            return
        silent_s = time.monotonic() - self._heard[trial_id]
        if silent_s >= self._report_timeout_s:  # a worker that hangs ends itself
            message = f"no report in {self._report_timeout_s:g} s; its log shows where it hung"
            failure = Failure("timeout", message)
        else:
            failure = death_of(error)
        self._fail(trial_id, failure)

    def _fail(self, trial_id: str, failure: Failure) -> None:
        if failure.kind == STORAGE:
            self.error = self.error or StorageError(failure.message)
            return
        again = self._retries.grants(trial_id, self._epochs.get(trial_id, 0), failure)
        if not again:
            self.end(trial_id, FAILED, failure)
        self._settle(trial_id, failure.kind, again)

    def _start(self, trial: Trial) -> None:
        trial_id = _id(trial)
        self._heard[trial_id] = time.monotonic()
        if trial_id not in self._live:
            self._live.add(trial_id)
            known = ((name, trial.config.get(name)) for name in ("origin", "seed"))
            fields = {name: value for name, value in known if value is not None}
            self.emit(TRIAL_STARTED, trial_id=trial_id, config=trial.config["config"], **fields)

    def end(self, trial_id: str, status: str, failure: Failure | None = None) -> None:
        """Journal the end of a trial."""
        self._live.discard(trial_id)
        fields = {}
        if failure:
            fields["error"] = {"kind": failure.kind, "message": failure.message}
        self.emit(TRIAL_ENDED, trial_id=trial_id, status=status, **fields)


def _error_of(trial: Trial) -> BaseException | None:
    """What Ray says of the trial's death: this process has just written it."""
    try:
        error = cloudpickle.loads(Path(trial.pickled_error_file or "").read_bytes())
    except Exception:  # not written, or not to be read
        return None
    return error if isinstance(error, BaseException) else None


def _id(trial: Trial) -> str:
    return str(trial.config["trial_id"])
