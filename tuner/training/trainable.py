"""What Ray Tune runs for one trial: it drives a Learner, or a plain function, through its epochs.

It owns everything that is not training: the trial's log, its checkpoints, the check of what is
reported, and the naming of a failure. A failure is reported as the trial's last result, so that
the worker's process lives on for the next trial; only a process that dies is Ray's to notice.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ray.air._internal.util import StartTraceback, skip_exceptions
from ray.air.constants import TIMESTAMP
from ray.train._internal.session import get_session
from ray.tune import Trainable
from ray.tune.result import RESULT_DUPLICATE, SHOULD_CHECKPOINT
from ray.tune.trainable import wrap_function
from ray.tune.trainable.function_trainable import FunctionTrainable

from tuner.assignment import Assignment
from tuner.training.checkpoint_store import CheckpointStore, Saved, load_state
from tuner.training.failures import Failure, check_report, failure_of
from tuner.training.learner import Learner
from tuner.training.loading import load_trainable
from tuner.training.trial_log import TrialLog

REPORT = "tuner"  # the key of a result under which the driver finds what to journal

_RAYS_OWN = (TIMESTAMP, SHOULD_CHECKPOINT)  # Ray adds them to what a function reports


@dataclass(frozen=True, slots=True)
class Plan:
    """What all trials of an experiment share, sent to each worker once.

    folder: the experiment's. trainable: its dotted path. constants: what every Learner is built
    with, `seed` and `epochs` among them. epochs: the length of a whole trial, None for a function
    that ends by itself. cpus, gpus: what the trial reserved. sys_path: where modules are found.
    """

    folder: str
    trainable: str
    constants: dict[str, Any]
    metric: str
    epochs: int | None
    cpus: float
    gpus: float
    sys_path: tuple[str, ...]


class _Trial(Trainable):
    """What a Learner's and a function's trials have in common."""

    def setup(self, config: dict[str, Any], plan: Plan | None = None) -> None:
        assert plan is not None
        self._plan = plan
        sys.path += [entry for entry in plan.sys_path if entry not in sys.path]
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._end()
        self._begin(new_config)
        return True

    def cleanup(self) -> None:
        self._end()

    def step(self) -> dict[str, Any]:
        if self._failure is None:
            try:
                return self._report()
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                self._fail(error)
        return self._failed()

    def _report(self) -> dict[str, Any]:
        """Train one epoch; the result for Ray. Raises whatever the trainable raises."""
        raise NotImplementedError

    def _prepare(self, assignment: Assignment) -> None:
        """Build what trains. Raises whatever the trainable raises."""
        raise NotImplementedError

    def _release(self) -> None:
        """Let go of what trained."""

    def _begin(self, config: dict[str, Any]) -> None:
        assignment = Assignment(**config)
        folder = Path(self._plan.folder)
        self._failure: Failure | None = None
        self._epoch = assignment.epoch
        self._store = CheckpointStore(folder, assignment.trial_id)
        self._log = TrialLog(folder / "trials" / assignment.trial_id / "log.txt")
        self._log.__enter__()
        try:
            self._prepare(assignment)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            self._fail(error)

    def _end(self) -> None:
        self._release()
        self._log.__exit__(None, None, None)
        gc.collect()

    def _fail(self, error: BaseException) -> None:
        traceback.print_exception(error)
        self._failure = failure_of(error)

    def _failed(self) -> dict[str, Any]:
        assert self._failure is not None
        return {"done": True, REPORT: {"failure": asdict(self._failure)}}

    def _result(self, raw: object) -> tuple[dict[str, float], bool]:
        """The metrics of a report as they will be journaled, and whether they are usable."""
        metrics, left_out, self._failure = check_report(raw, self._plan.metric)
        if left_out:
            print(f"epoch {self._epoch + 1}: no finite numbers, not recorded: {left_out}")
        if self._failure:
            print(f"epoch {self._epoch + 1}: {self._failure.message}")
            return {}, False
        self._epoch += 1
        return metrics, True

    def _success(
        self, metrics: Mapping[str, float], saved: Saved | None, done: bool
    ) -> dict[str, Any]:
        report = {"metrics": metrics, "checkpoint": saved.as_dict() if saved else None}
        return {**metrics, "training_iteration": self._epoch, "done": done, REPORT: report}


class LearnerTrial(_Trial):
    """A trial of a Learner: an epoch is one `step()`, and a checkpoint follows each."""

    def _prepare(self, assignment: Assignment) -> None:
        import torch

        torch.set_num_threads(max(1, int(self._plan.cpus)))
        cuda = self._plan.gpus > 0 and torch.cuda.is_available()
        build = load_trainable(self._plan.trainable)
        self._learner: Learner | None = build(
            assignment.config,
            self._plan.constants,
            device=torch.device("cuda" if cuda else "cpu"),
            rank=0,
            world_size=1,
        )
        if assignment.checkpoint is not None:
            path = Path(self._plan.folder) / assignment.checkpoint["path"]
            state = load_state(path, assignment.checkpoint["sha256"])
            self._learner.load_state_dict(state)

    def _report(self) -> dict[str, Any]:
        assert self._learner is not None
        metrics, usable = self._result(self._learner.step())
        if not usable:
            return self._failed()
        saved = self._store.save(self._epoch, self._learner.state_dict())
        done = self._plan.epochs is not None and self._epoch >= self._plan.epochs
        return self._success(metrics, saved, done)

    def _release(self) -> None:
        import torch

        self._learner = None
        if torch.cuda.is_initialized():
            gc.collect()  # first, so that the cache has something to give back
            torch.cuda.empty_cache()


class FunctionTrial(_Trial, FunctionTrainable):
    """A trial of a plain `def train(config)`: an epoch is one `tune.report(...)`.

    The function runs in a thread that Ray's session holds between two reports.
    """

    def _prepare(self, assignment: Assignment) -> None:
        if get_session() is None:
            FunctionTrainable.setup(self, self.config)
        elif not FunctionTrainable.reset_config(self, self.config):
            raise RuntimeError("the trial before did not end its thread")
        if assignment.checkpoint is not None:
            from ray.tune import Checkpoint

            path = Path(self._plan.folder) / assignment.checkpoint["path"]
            session = get_session()
            assert session is not None
            session.loaded_checkpoint = Checkpoint.from_directory(path)

    def _trainable_func(self, config: dict[str, Any]) -> Any:
        function = wrap_function(load_trainable(self._plan.trainable))
        try:
            return function._trainable_func(self, config["config"])
        except SystemExit as error:
            session = get_session()
            if session is None or session.stop_event.is_set():
                raise  # this is how Ray ends the thread of a trial that is stopped
            raise SystemExit(str(error.code)) from error  # Ray passes over a code of 0

    def _report(self) -> dict[str, Any]:
        try:
            raw = FunctionTrainable.step(self)
        except StartTraceback as error:
            raise skip_exceptions(error) from None
        if RESULT_DUPLICATE in raw:  # the function has returned
            if self._epoch == 0:
                self._failure = Failure("bad_report", "returned without a report")
                return self._failed()
            return dict(raw)
        raw.pop("checkpoint_dir_name", None)  # Ray's own addition
        reported = {name: value for name, value in raw.items() if name not in _RAYS_OWN}
        metrics, usable = self._result(reported)
        if not usable:
            return self._failed()
        last = self._last_training_result
        checkpoint = last.checkpoint if last else None
        saved = self._store.adopt(self._epoch, Path(checkpoint.path)) if checkpoint else None
        done = self._plan.epochs is not None and self._epoch >= self._plan.epochs
        return self._success(metrics, saved, done)

    def cleanup(self) -> None:
        try:
            FunctionTrainable.cleanup(self)
        finally:
            self._end()
