"""The Trainable that Ray Tune runs for a trial: it drives a Learner, or another trainable.

It does everything but the training: the trial's log, its checkpoints, the check of its reports, and
the names of failures. It reports a failure as the trial's last result, so that the worker's process
can run the next trial. Ray only notices processes that die.
"""

from __future__ import annotations

import faulthandler
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ray.exceptions import RayActorError
from ray.tune import Trainable

from tuner import ray_compat
from tuner.errors import StorageError
from tuner.experiment.trials import CheckpointRecord
from tuner.spec.sections import EPOCH_S
from tuner.trial.checkpoints import CheckpointStore, Save, SavePolicy
from tuner.trial.context import Assignment, TrialContext, add_trial_seed
from tuner.trial.failures import Failure, WorkerSpentError, build_failure, format_error
from tuner.trial.gpus import take
from tuner.trial.rank_actors import RankGroup, RankTimeoutError
from tuner.trial.reports import check_report, is_last_report
from tuner.trial.trial_process import (
    TrialLog,
    TrialProcess,
    WorkerReplacedError,
    find_reuse_fault,
)
from tuner.trial.worker import Worker
from tuner.trial.worker_death import build_death_failure

REPORT = "tuner"  # the key of a result under which the driver finds what to journal
RUNS_ON = "runs_on"  # in it: the trial is whole, and no scheduler compares it any more
# The method that the driver calls when a trial ends that is not saved
SAVE_NOW = "save_now"

SaveEpoch = Callable[[int, Mapping[str, float], bool], Iterable[CheckpointRecord]]


class Trial(Trainable):
    """The base of all trials: those of Learners, functions, Ray's classes, and commands."""

    _live = False  # whether a trial has begun here and not ended
    # Whether what was reported last can be gone on from, and the best epoch, too
    _is_saved = True
    # Whether its code goes on after the last epoch of a whole trial, to its return
    runs_on = False

    def setup(
        self, config: dict[str, Any], context: TrialContext | None = None
    ) -> None:
        assert context is not None
        logging.getLogger(ray_compat.TRAINABLE_LOGGER).setLevel(logging.WARNING)
        self._context = context
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin another trial. Raises WorkerReplacedError: to return False would lose the trial."""
        try:
            reason = self._end()
        except Exception as error:  # the trial before may have broken this process
            reason = (
                f"a trial could not be cleared away: {build_failure(error).message}"
            )
        if reason:
            raise WorkerReplacedError(reason)
        self._begin(new_config)
        return True

    def cleanup(self) -> None:
        self._end()

    def step(self) -> dict[str, Any]:
        if self._failure is None:
            with self._limit_time():
                try:
                    return self._report()
                except BaseException as error:  # whichever it is, it is this trial's
                    self._record_failure(error)
                finally:
                    self._log.cap()
        return self._report_failure()

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        """Within it, end this process after the limit of time, even if it hangs in C.

        Ray then reports its death to the driver, and the log shows where every thread was. A group
        of ranks notices earlier. If this fails, the driver ends the process.
        """
        has_ranks = self._context.resources.ranks > 1
        patience_s = self._context.timeouts.report_s * (1.25 if has_ranks else 1)
        faulthandler.dump_traceback_later(
            patience_s, exit=True, file=self._log.fileno()
        )
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _report(self) -> dict[str, Any]:
        """Train one epoch; the result for Ray. Raises what the trainable raises."""
        raise NotImplementedError

    def _reserve(self) -> None:
        """Wait for the GPUs that another search may use."""
        take(self._context.resources.gpus)

    def _prepare(self, assignment: Assignment) -> None:
        """Build what trains. Raises what the trainable raises."""
        raise NotImplementedError

    def _release(self) -> str | None:
        """Drop what trained; returns why this process should not run another trial, or None."""
        raise NotImplementedError

    def _begin(self, config: dict[str, Any]) -> None:
        # The trial before may have changed the directory
        self._context.prepare_process()
        assignment = Assignment(**config)
        self._failure: Failure | None = None
        self._epoch = assignment.epoch
        self._files = self._context.locate_files(assignment.trial_id)
        self._log = TrialLog(
            self._context.folder, f"trials/{assignment.trial_id}/log.txt"
        )
        try:
            self._log.__enter__()
        except StorageError as error:
            self._failure = build_failure(error)
            return
        self._live = True
        try:
            self._reserve()
            with self._limit_time():
                self._prepare(assignment)
        except BaseException as error:
            self._record_failure(error)

    def _end(self) -> str | None:
        """End the trial, once; returns why this process should not run another, or None."""
        if not self._live:
            return None
        self._live = False
        try:
            reason = self._release() or self._find_reuse_fault()
            if reason:
                print(f"this process is not used again: {reason}")
            return reason
        finally:
            self._log.__exit__()

    def _record_failure(self, error: BaseException) -> None:
        traceback.print_exception(error)
        if isinstance(error, RayActorError):
            self._failure = build_death_failure(error)
        elif isinstance(error, RankTimeoutError):
            self._failure = Failure("timeout", str(error))
        else:
            self._failure = build_failure(error)

    def _report_failure(self) -> dict[str, Any]:
        """The failure as the last result; raised where the process ends with the trial."""
        assert self._failure is not None
        self._log.upload()  # so that the log is complete when the failure is read
        if self._find_reuse_fault():
            raise WorkerSpentError(self._failure)
        return {"done": True, REPORT: {"failure": asdict(self._failure)}}

    def _find_reuse_fault(self) -> str | None:
        """Why this process cannot run another trial after a failure, or None."""
        trains_here = self._context.resources.ranks == 1
        return find_reuse_fault(self._failure) if trains_here else None

    def _record_report(
        self,
        report: object,
        save: SaveEpoch,
        measured: Mapping[str, float],
        *,
        is_last: bool,
    ) -> dict[str, Any]:
        """The result for Ray of an epoch's report, with the checkpoints that `save` returns.

        measured: added to the report. is_last: whether the trial ends with it by itself.
        save(epoch, metrics, is_last): called with whether the trial ends with it for either reason.
        """
        metric = self._context.objective.metric
        required = {*self._context.objective.required} - measured.keys()
        metrics, left_out, self._failure = check_report(report, metric, required)
        if left_out:
            print(
                f"epoch {self._epoch + 1}: no finite numbers, not recorded: {left_out}"
            )
        if self._failure:
            print(f"epoch {self._epoch + 1}: {self._failure.message}")
            return self._report_failure()
        self._epoch += 1
        metrics = {**measured, **metrics}
        is_whole = self._is_whole
        saved = _describe_records(save(self._epoch, metrics, is_last or is_whole))
        journaled = {
            "metrics": metrics,
            "checkpoints": saved,
            "is_saved": self._is_saved,
        }
        if is_last:
            journaled["done"] = True
        done = is_last or (is_whole and not self.runs_on)
        if done:
            # So that after a kill the store has the log of what is complete
            self._log.upload()
        if is_whole and not done:
            journaled[RUNS_ON] = True
        return {
            **metrics,
            "training_iteration": self._epoch,
            "done": done,
            REPORT: journaled,
        }

    @property
    def _is_whole(self) -> bool:
        return self._context.epochs is not None and self._epoch >= self._context.epochs


class ProcessTrial(Trial):
    """A trial whose trainable keeps its own checkpoints: a function, a class or a command."""

    _process: TrialProcess | None = None
    _running: Any = None  # the session, the object or the script of the trial

    def _begin_process(
        self, assignment: Assignment
    ) -> tuple[Any, dict[str, Any], Path | None]:
        """Go to the trial's folder; (the trainable, its config, the checkpoint to go on from).

        Raises as `TrialProcess.begin` and `CheckpointStore.fetch` do.
        """
        self._store = CheckpointStore(self._context.folder, assignment.trial_id)
        self._process = self._process or TrialProcess(self._context)
        trainable = self._process.begin(assignment)
        checkpoint = assignment.checkpoint
        files = self._store.fetch(checkpoint["path"]) if checkpoint else None
        return trainable, add_trial_seed(assignment.config, assignment.seed), files

    def _record_with_checkpoint(
        self, report: object, write: Callable[[Path], object] | None, *, is_last: bool
    ) -> dict[str, Any]:
        """`_record_report` with the checkpoint that `write` makes, called with its new folder."""

        def save(epoch: int, *_: object) -> list[CheckpointRecord]:
            return [self._store.save_folder(epoch, write)] if write else []

        return self._record_report(report, save, {}, is_last=is_last)

    def _stop(self, running: Any) -> str | None:
        """End what runs; returns why this process should not run another trial, or None."""
        raise NotImplementedError

    def _release(self) -> str | None:
        running = self._running
        self._running = None
        reason = None if running is None else self._stop(running)
        if self._process is None:
            return reason
        self._store.release()
        ended = self._process.end()
        return reason or ended


class LearnerTrial(Trial):
    """A trial of a Learner, in this process, or in several that this one supervises."""

    _workers: Any = None  # the Worker, or a RankGroup
    # The epoch whose checkpoint is being written beside training
    _writing: int | None = None

    def _reserve(self) -> None:
        if self._workers is None and self._context.resources.ranks > 1:
            self._workers = RankGroup(self._context)
        if isinstance(self._workers, RankGroup):
            self._workers.start()
        else:
            super()._reserve()

    def _prepare(self, assignment: Assignment) -> None:
        self._workers = self._workers or Worker(self._context)
        context = self._context
        self._policy = SavePolicy(
            context.saves, context.objective, reported=assignment.reported
        )
        for epoch, metrics in assignment.earlier:
            self._policy.is_best(epoch, metrics)
        self._writing = None
        self._workers.begin(assignment)

    def _report(self) -> dict[str, Any]:
        began = time.monotonic()
        report, memory = self._workers.step()
        self._epoch_s = time.monotonic() - began
        measured = {**memory, EPOCH_S: self._epoch_s}
        return self._record_report(
            report, self._save, measured, is_last=is_last_report(report)
        )

    def save_now(self) -> dict[str, Any]:
        """Write the last epoch and the best; returns `checkpoints`, or a `failure`, to journal."""
        with self._limit_time():
            try:
                saved = self._workers.save(self._epoch, Save.NOW, is_best=False)
            except BaseException as error:  # whichever it is, it is this trial's
                self._record_failure(error)
            else:
                return {"checkpoints": _describe_records(saved)}
        assert self._failure is not None
        return {"failure": asdict(self._failure)}

    def _report_failure(self) -> dict[str, Any]:
        """As of any trial, with what was written beside the epoch that failed."""
        try:
            saved = self._workers.written(wait=True) if self._workers else []
        except Exception as error:  # the trial has failed already, for another reason
            print(f"its last checkpoint is not written: {format_error(error)}")
            saved = []
        result = super()._report_failure()
        result[REPORT]["checkpoints"] = _describe_records(saved)
        return result

    def _save(
        self, epoch: int, metrics: Mapping[str, float], is_last: bool
    ) -> list[CheckpointRecord]:
        done = [] if self._writing is None else self._workers.written()
        is_best = self._policy.is_best(epoch, metrics)
        now = time.monotonic()
        how = self._policy.choose(
            epoch,
            is_best=is_best,
            is_last=is_last,
            epoch_s=self._epoch_s,
            is_writing=self._writing is not None and not done,
            now=now,
        )
        if how is not None:
            done += self._workers.save(epoch, how, is_best=is_best)
        if how is Save.NOW:
            self._policy.record_wait(time.monotonic() - now)
        newest = max((record.epoch for record in done), default=0)
        self._is_saved = newest == epoch
        if how is Save.BESIDE and not self._is_saved:
            self._writing = epoch
        elif self._writing is not None and newest >= self._writing:
            self._writing = None
        return done

    def _release(self) -> str | None:
        return self._workers.end() if self._workers is not None else None

    def cleanup(self) -> None:
        try:
            super().cleanup()
        finally:
            if isinstance(self._workers, RankGroup):
                self._workers.close()


def _describe_records(records: Iterable[CheckpointRecord]) -> list[dict[str, Any]]:
    return [record.as_dict() for record in records]
