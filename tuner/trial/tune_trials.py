"""Trials of what Ray Tune itself trains: a plain function, or a class of `ray.tune.Trainable`."""

from __future__ import annotations

import shutil
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune import Trainable

from tuner import ray_compat
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.trials import CheckpointRecord
from tuner.trial.context import Assignment, with_trial_seed
from tuner.trial.failures import Failure, message_of
from tuner.trial.trainable import ProcessTrial

_THREAD_S = 2.0  # how long a function may take to end once its trial has


class FunctionTrial(ProcessTrial):
    """A trial of a plain `def train(config)`: an epoch is one `tune.report(...)`.

    The function runs in a thread that Ray's session holds between two reports. After the last epoch
    of a whole trial it goes on to its return, or to a further report, which ends it. A seed of the
    trial's own is its config's `seed`, since a function has no other argument.
    """

    runs_on = True
    _returned = False

    def _prepare(self, assignment: Assignment) -> None:
        self._returned = False
        began = ray_compat.begin_function(self, self._call)
        assert began, "`_release` has ended the thread of the trial before"
        self._function = ray_compat.as_tune_calls(self._begin_process(assignment))
        ray_compat.name_trial_dir(self._files)
        if ExperimentFolder(self._context.folder).is_remote:
            ray_compat.admit_storage()
        if assignment.checkpoint is not None:
            ray_compat.continue_from(self._store.fetch(assignment.checkpoint["path"]))

    def _call(self, config: dict[str, Any]) -> Any:
        try:
            return self._function(with_trial_seed(config["config"], config["seed"]))
        except SystemExit as error:
            if ray_compat.is_raised_by_ray(error):
                raise  # this is how it ends the thread of a trial that is stopped
            raise SystemExit(str(error.code)) from error  # Ray ignores an exit with code 0
        except StopIteration as error:  # of `next` in the function; Ray would take it for its own
            raise RuntimeError("the function raised StopIteration") from error

    def _report(self) -> dict[str, Any]:
        report = ray_compat.next_report(self)
        if report.metrics is None:  # the function has returned
            self._returned = True
            if self._epoch == 0:
                report_it = f"tune.report({{{self._context.metric!r}: ...}})"
                fault = f"returned without a report; each epoch has to end with {report_it}"
                self._failure = Failure("bad_report", fault)
                return self._failed()
            return report.raw
        if self._is_whole:
            return ray_compat.ended()
        save = partial(self._save, report.checkpoint)
        is_last = bool(report.metrics.get("done", False))  # as Tune takes it
        return self._recorded(report.metrics, save, {}, is_last=is_last)

    def _save(
        self, folder: Path | None, epoch: int, value: float, is_last: bool
    ) -> list[CheckpointRecord]:
        if folder is None:
            return []
        saved = self._store.adopt(epoch, folder)
        if ExperimentFolder(self._context.folder).is_remote:
            shutil.rmtree(folder, ignore_errors=True)  # Ray's copy, of this machine alone
        return [saved]

    def _release(self) -> str | None:
        if not self._returned and self._failure is None:
            print(f"ended after epoch {self._epoch}: what follows its last report does not run")
        ended = ray_compat.end_thread(_THREAD_S)
        reason = self._end_process()
        return reason if ended else f"the function of a trial has not ended in {_THREAD_S:g} s"

    def _fail(self, error: BaseException) -> None:
        super()._fail(ray_compat.error_of_function(error) or error)

    def cleanup(self) -> None:
        try:
            super().cleanup()
        finally:
            ray_compat.end_function(self)


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
        raw = ray_compat.train_class(self._trained)
        rays = ray_compat.filled_in(self._trained) - {self._context.metric}
        metrics = {name: value for name, value in raw.items() if name not in rays}
        return self._recorded(
            metrics, partial(self._save, self._trained), {}, is_last=bool(raw["done"])
        )

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
    """Let the object clear away what it has; why that failed, if it did."""
    try:
        trained.stop()
    except Exception as error:  # of a user's `cleanup`
        traceback.print_exception(error)
        return f"cleanup() failed: {message_of(error)}"
    return None
