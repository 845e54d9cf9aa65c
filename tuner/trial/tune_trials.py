"""Trials of what Ray Tune itself trains: a plain function, or a class of `ray.tune.Trainable`."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune import Checkpoint, Trainable

from tuner import ray_compat
from tuner.experiment.trials import CheckpointRecord
from tuner.trial.context import Assignment, with_trial_seed
from tuner.trial.failures import Failure, message_of
from tuner.trial.trainable import ProcessTrial

_THREAD_S = 2.0  # how long a function may take to end once its trial has


class FunctionTrial(ProcessTrial):
    """A trial of a plain `def train(config)`: an epoch is one `tune.report(...)`.

    The function runs in a thread that waits between two reports. After the last epoch of a whole
    trial it goes on to its return, or to a further report, which ends it. A seed of the trial's own
    is its config's `seed`, since a function has no other argument.
    """

    runs_on = True
    _session: ray_compat.FunctionSession | None = None

    def _prepare(self, assignment: Assignment) -> None:
        function, checkpoint = self._begin_process(assignment), assignment.checkpoint
        self._session = ray_compat.FunctionSession(
            function,
            with_trial_seed(assignment.config, assignment.seed),
            trial=self,
            folder=self._files,
            checkpoint=self._store.fetch(checkpoint["path"]) if checkpoint else None,
        )
        self._has_returned = False

    def _report(self) -> dict[str, Any]:
        assert self._session is not None
        report = self._session.next_report()
        if report is None:
            self._has_returned = True
            if self._epoch > 0:
                return ray_compat.ended()
            report_it = f"tune.report({{{self._context.metric!r}: ...}})"
            fault = f"returned without a report; each epoch has to end with {report_it}"
            self._failure = Failure("bad_report", fault)
            return self._failed()
        if self._is_whole:
            return ray_compat.ended()
        save = partial(self._save, report.checkpoint)
        is_last = bool(report.metrics.get("done", False))  # as Tune takes it
        return self._recorded(report.metrics, save, {}, is_last=is_last)

    def _save(
        self, checkpoint: Checkpoint | None, epoch: int, value: float, is_last: bool
    ) -> list[CheckpointRecord]:
        if checkpoint is None:
            return []
        with checkpoint.as_directory() as folder:
            return [self._store.adopt(epoch, Path(folder))]

    def _release(self) -> str | None:
        session, self._session = self._session, None
        if session is None:
            return self._end_process()
        if not self._has_returned and self._failure is None:
            print(f"ended after epoch {self._epoch}: what follows its last report does not run")
        has_ended = session.end(_THREAD_S)
        reason = self._end_process()
        return reason if has_ended else f"the function of a trial has not ended in {_THREAD_S:g} s"


class ClassTrial(ProcessTrial):
    """A trial of a `ray.tune.Trainable`: an epoch is one `step()`, and a checkpoint follows each.

    Every trial has an object of its own, also in a process that is used again. `reset_config` is
    not called: it serves a population's trials, which go on with another config, and may keep
    what was learnt. A seed of the trial's own is its config's `seed`.
    """

    _trained: Trainable | None = None

    def _prepare(self, assignment: Assignment) -> None:
        kind = self._begin_process(assignment)
        config = with_trial_seed(assignment.config, assignment.seed)
        self._trained = ray_compat.make_class(kind, config, trial=self, folder=self._files)
        if assignment.checkpoint is not None:
            folder = self._store.fetch(assignment.checkpoint["path"])
            ray_compat.restore_class(self._trained, folder, iteration=assignment.epoch)

    def _report(self) -> dict[str, Any]:
        assert self._trained is not None
        report = ray_compat.train_class(self._trained)
        is_last = isinstance(report, dict) and bool(report.get("done", False))
        return self._recorded(report, partial(self._save, self._trained), {}, is_last=is_last)

    def _save(
        self, trained: Trainable, epoch: int, value: float, is_last: bool
    ) -> list[CheckpointRecord]:
        if type(trained).save_checkpoint is Trainable.save_checkpoint:
            return []  # the class keeps none

        def save(folder: Path) -> None:
            folder.mkdir()
            trained.save(str(folder))

        return [self._store.fill(epoch, save)]

    def _release(self) -> str | None:
        trained, self._trained = self._trained, None
        reason = _stopped(trained) if trained is not None else None
        return self._end_process() or reason


def _stopped(trained: Trainable) -> str | None:
    """Call the object's `stop`; returns why it failed, or None."""
    try:
        trained.stop()
    except Exception as error:  # of a user's `cleanup`
        traceback.print_exception(error)
        return f"cleanup() failed: {message_of(error)}"
    return None
