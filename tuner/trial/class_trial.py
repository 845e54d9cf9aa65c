"""A trial of a class of Ray Tune's: setup, step, save_checkpoint, load_checkpoint."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune import Trainable

from tuner import ray_compat
from tuner.experiment.trials import CheckpointRecord
from tuner.trial.checkpoint_store import CheckpointStore
from tuner.trial.context import Assignment, with_trial_seed
from tuner.trial.failures import message_of
from tuner.trial.trainable import Trial
from tuner.trial.trial_process import TrialProcess


class ClassTrial(Trial):
    """A trial of a `ray.tune.Trainable`: an epoch is one `step()`, and a checkpoint follows each.

    Every trial has an object of its own, also in a process that is used again. `reset_config` is
    not called: it serves a population's trials, which go on with another config, and may keep
    what was learnt. A seed of the trial's own is its config's `seed`.
    """

    _process: TrialProcess | None = None
    _trained: Trainable | None = None

    def _prepare(self, assignment: Assignment) -> None:
        self._process = self._process or TrialProcess(self._context)
        self._store = CheckpointStore(self._context.folder, assignment.trial_id)
        kind = self._process.begin(assignment)
        config = with_trial_seed(assignment.config, assignment.seed)
        self._trained = ray_compat.make_class(kind, config, trial=self, folder=self._files)
        if assignment.checkpoint is not None:
            folder = self._store.fetch(assignment.checkpoint["path"])
            ray_compat.restore_class(self._trained, folder, iteration=assignment.epoch)
            self._store.release()

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
        assert self._process is not None
        return self._process.end() or reason


def _stopped(trained: Trainable) -> str | None:
    """Let the object clear away what it has; why that failed, if it did."""
    try:
        trained.stop()
    except Exception as error:  # whatever its `cleanup` raises
        traceback.print_exception(error)
        return f"cleanup() failed: {message_of(error)}"
    return None
