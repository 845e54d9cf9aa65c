"""What Ray Tune runs for one trial: it drives a Learner, or a plain function, through its epochs.

It owns everything that is not training: the trial's log, its checkpoints, the check of what is
reported, and the naming of a failure. A failure is reported as the trial's last result, so that
the worker's process lives on for the next trial; only a process that dies is Ray's to notice.
"""

from __future__ import annotations

import faulthandler
import logging
import shutil
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from ray.air._internal.util import skip_exceptions
from ray.air.constants import TIMESTAMP
from ray.exceptions import RayActorError
from ray.train._internal.session import get_session
from ray.tune import Trainable
from ray.tune.result import RESULT_DUPLICATE, SHOULD_CHECKPOINT
from ray.tune.trainable import wrap_function
from ray.tune.trainable.function_trainable import FunctionTrainable

from tuner.errors import StorageError
from tuner.places import url_of
from tuner.ray_compat import admit_storage
from tuner.trial import notes
from tuner.trial.assignment import Assignment
from tuner.trial.checkpoint_store import CheckpointStore, Saved
from tuner.trial.failures import Failure, check_report, failure_of
from tuner.trial.loading import load_trainable
from tuner.trial.rank_actors import RankGroup, RankTimeoutError
from tuner.trial.recycling import Leftovers, why_not_again
from tuner.trial.trial_log import TrialLog
from tuner.trial.worker import Plan, Worker, own_seed
from tuner.trial.worker_death import WorkerReplacedError, WorkerSpentError, death_of, must_move

REPORT = "tuner"  # the key of a result under which the driver finds what to journal

_RAYS_OWN = (TIMESTAMP, SHOULD_CHECKPOINT)  # Ray adds them to what a function reports


class _Trial(Trainable):
    """What a Learner's and a function's trials have in common."""

    _live = False  # whether a trial has begun here and not ended

    def setup(self, config: dict[str, Any], plan: Plan | None = None) -> None:
        assert plan is not None
        # Of a start that takes long it would say in the trial's log to reuse actors, as is done
        logging.getLogger("ray.tune.trainable.trainable").setLevel(logging.WARNING)
        self._plan = plan
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Go on with another trial. Raises WorkerReplacedError where this process had better not.

        To return False would lose the trial: Tune then tells nobody that it has ended.
        """
        reason = self._end() or ("its node is about to leave" if must_move() else None)
        if reason:
            raise WorkerReplacedError(reason)
        self._begin(new_config)
        return True

    def cleanup(self) -> None:
        self._end()

    def step(self) -> dict[str, Any]:
        if self._failure is None:
            with self._in_time():
                try:
                    return self._report()
                except (Exception, SystemExit, KeyboardInterrupt) as error:
                    self._fail(error)
        return self._failed()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """End this process if it does not get out of here in time, even from a hang in C.

        Ray then tells the driver of its death, and the log shows where every thread was. Ranks
        are told by their group first.
        """
        faulthandler.dump_traceback_later(self._patience_s, exit=True, file=self._log.fileno())
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    @property
    def _patience_s(self) -> float:
        return self._plan.report_timeout_s * (1 if self._plan.ranks == 1 else 1.5)

    def _hung(self) -> Failure:
        told = f"did not start in {self._patience_s:g} s; its log shows where it hung"
        return Failure("timeout", told)

    def _report(self) -> dict[str, Any]:
        """Train one epoch; the result for Ray. Raises whatever the trainable raises."""
        raise NotImplementedError

    def _prepare(self, assignment: Assignment) -> None:
        """Build what trains. Raises whatever the trainable raises."""
        raise NotImplementedError

    def _release(self) -> float:
        """Let go of what trained; MiB that the process has kept of its trials."""
        raise NotImplementedError

    def _begin(self, config: dict[str, Any]) -> None:
        self._plan.enter()  # the trial before may have gone elsewhere
        assignment = Assignment(**config)
        self._failure: Failure | None = None
        self._epoch = assignment.epoch
        self._log = TrialLog(self._plan.folder / "trials" / assignment.trial_id / "log.txt")
        try:
            self._log.__enter__()
        except StorageError as error:
            self._failure = failure_of(error)
            return
        self._live = True
        with self._in_time(), notes.unless_done(self._hung(), self._patience_s):
            try:
                self._prepare(assignment)
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                self._fail(error)

    def _end(self) -> str | None:
        """Let go of the trial, once; why this process should not train another."""
        if not self._live:
            return None
        self._live = False
        try:
            reason = why_not_again(grown_mib=self._release())
            if reason:
                print(f"this process is not used again: {reason}")
            return reason
        finally:
            self._log.__exit__()

    def _fail(self, error: BaseException) -> None:
        traceback.print_exception(error)
        if isinstance(error, RayActorError):
            self._failure = death_of(error)
        elif isinstance(error, RankTimeoutError):
            self._failure = Failure("timeout", str(error))
        else:
            self._failure = failure_of(error)

    def _failed(self) -> dict[str, Any]:
        """The failure as the trial's last result; of a process that is spent its end."""
        assert self._failure is not None
        self._log.catch_up()  # who reads of the failure may look into the log
        if self._plan.ranks == 1 and why_not_again(failure=self._failure):
            raise WorkerSpentError(*astuple(self._failure))
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

    def _success(self, metrics: Mapping[str, float], saved: Saved | None) -> dict[str, Any]:
        done = self._plan.epochs is not None and self._epoch >= self._plan.epochs
        report = {"metrics": metrics, "checkpoint": saved.as_dict() if saved else None}
        return {**metrics, "training_iteration": self._epoch, "done": done, REPORT: report}


class LearnerTrial(_Trial):
    """A trial of a Learner: an epoch is one `step()`, and a checkpoint follows each.

    With one worker it trains in this process; with several this process only supervises them.
    """

    _workers: Worker | RankGroup | None = None

    def _prepare(self, assignment: Assignment) -> None:
        if self._workers is None:
            several = self._plan.ranks > 1
            self._workers = RankGroup(self._plan) if several else Worker(self._plan)
        self._workers.begin(assignment)

    def _report(self) -> dict[str, Any]:
        assert self._workers is not None
        report, memory = self._workers.step()
        metrics, usable = self._result(report)
        if not usable:
            return self._failed()
        return self._success({**memory, **metrics}, self._workers.save(self._epoch))

    def _release(self) -> float:
        return self._workers.end() if self._workers is not None else 0.0

    def cleanup(self) -> None:
        try:
            super().cleanup()
        finally:
            if self._workers is not None:
                self._workers.close()


class FunctionTrial(_Trial, FunctionTrainable):
    """A trial of a plain `def train(config)`: an epoch is one `tune.report(...)`.

    The function runs in a thread that Ray's session holds between two reports. A seed of the
    trial's own is its config's `seed`: a function is given nothing else.
    """

    _leftovers: Leftovers | None = None

    def _prepare(self, assignment: Assignment) -> None:
        self._leftovers = self._leftovers or Leftovers()
        self._store = CheckpointStore(self._plan.folder, assignment.trial_id)
        if get_session() is None:
            FunctionTrainable.setup(self, self.config)
        elif not FunctionTrainable.reset_config(self, self.config):
            raise RuntimeError("the trial before did not end its thread")
        session = get_session()
        assert session is not None
        if url_of(self._plan.folder):
            admit_storage(session.storage)
        if assignment.checkpoint is not None:
            from ray.tune import Checkpoint

            path = self._store.bring(assignment.checkpoint["path"])
            session.loaded_checkpoint = Checkpoint.from_directory(path)

    def _trainable_func(self, config: dict[str, Any]) -> Any:
        function = wrap_function(load_trainable(self._plan.trainable))
        try:
            hyperparameters = config["config"] | own_seed(config["seed"])
            return function._trainable_func(self, hyperparameters)
        except SystemExit as error:
            session = get_session()
            if session is None or session.stop_event.is_set():
                raise  # this is how Ray ends the thread of a trial that is stopped
            raise SystemExit(str(error.code)) from error  # Ray passes over a code of 0

    def _report(self) -> dict[str, Any]:
        raw = FunctionTrainable.step(self)
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
        if checkpoint and url_of(self._plan.folder):
            shutil.rmtree(checkpoint.path, ignore_errors=True)  # Ray's copy, of this machine alone
        return self._success(metrics, saved)

    def _release(self) -> float:
        self._store.let_go()
        return self._leftovers.clear() if self._leftovers else 0.0

    def _fail(self, error: BaseException) -> None:
        # Without what Ray wraps around it
        super()._fail(skip_exceptions(error) if isinstance(error, Exception) else error)

    def cleanup(self) -> None:
        try:
            FunctionTrainable.cleanup(self)
        finally:
            self._end()
