"""Trials of a plain function, of a class of `ray.tune.Trainable`, and of a command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from ray.tune import Trainable

from tuner import ray_compat
from tuner.experiment.folder import ExperimentFolder
from tuner.spec.command import SEED
from tuner.trial.context import Assignment
from tuner.trial.directories import start_dir
from tuner.trial.failures import Failure, build_exit_failure, format_error
from tuner.trial.reports import is_last_report
from tuner.trial.script import Script
from tuner.trial.trainable import ProcessTrial

_THREAD_S = 2.0  # how long a function may take to end once its trial has


class FunctionTrial(ProcessTrial):
    """A trial of a plain `def train(config)`: an epoch is one `tune.report(...)`.

    The function runs in a thread that waits between two reports. After the last epoch of a whole
    trial it goes on to its return, or to a further report, which ends it. A seed of the trial's own
    is its config's `seed`, since a function has no other argument.
    """

    runs_on = True

    def _prepare(self, assignment: Assignment) -> None:
        function, config, checkpoint = self._begin_process(assignment)
        where: Any = {"folder": self._files, "checkpoint": checkpoint}
        self._running = ray_compat.FunctionSession(
            function, config, trial=self, **where
        )
        self._has_returned = False

    def _report(self) -> dict[str, Any]:
        report = self._running.next_report()
        if report is None:
            self._has_returned = True
            if self._epoch > 0:
                return ray_compat.build_end_report()
            report_it = f"tune.report({{{self._context.objective.metric!r}: ...}})"
            fault = f"returned without a report; each epoch has to end with {report_it}"
            self._failure = Failure("bad_report", fault)
            return self._report_failure()
        if self._is_whole:
            return ray_compat.build_end_report()
        is_last = bool(report.metrics.get("done", False))  # as Tune takes it
        if report.checkpoint is None:
            return self._record_with_checkpoint(report.metrics, None, is_last=is_last)
        with report.checkpoint.as_directory() as folder:
            # An error of it is the trial's alone
            write = partial(shutil.copytree, folder)
            return self._record_with_checkpoint(report.metrics, write, is_last=is_last)

    def _stop(self, running: Any) -> str | None:
        if not self._has_returned and self._failure is None:
            print(
                f"ended after epoch {self._epoch}: what follows its last report does not run"
            )
        has_ended = running.end(_THREAD_S)
        return (
            None
            if has_ended
            else f"the function of a trial has not ended in {_THREAD_S:g} s"
        )


class ClassTrial(ProcessTrial):
    """A trial of a `ray.tune.Trainable`: an epoch is one `step()`, and a checkpoint follows each.

    Every trial has an object of its own, also in a process that is used again. `reset_config` is
    not called: it serves a population's trials, which go on with another config, and may keep
    what was learnt. A seed of the trial's own is its config's `seed`.
    """

    def _prepare(self, assignment: Assignment) -> None:
        kind, config, checkpoint = self._begin_process(assignment)
        self._running = ray_compat.create_trainable(
            kind, config, trial=self, folder=self._files
        )
        if checkpoint is not None:
            ray_compat.restore_class(
                self._running, checkpoint, iteration=assignment.epoch
            )

    def _report(self) -> dict[str, Any]:
        report = ray_compat.train_class(self._running)
        is_last = isinstance(report, dict) and bool(report.get("done", False))
        keeps_none = type(self._running).save_checkpoint is Trainable.save_checkpoint
        return self._record_with_checkpoint(
            report, None if keeps_none else self._write, is_last=is_last
        )

    def _write(self, folder: Path) -> None:
        folder.mkdir()
        self._running.save(str(folder))

    def _stop(self, running: Any) -> str | None:
        try:
            running.stop()
        except Exception as error:  # of a user's `cleanup`
            traceback.print_exception(error)
            return f"cleanup() failed: {format_error(error)}"
        return None


class CommandTrial(ProcessTrial):
    """A trial of a command, any script: an epoch is one report of it.

    It finds its config and its folders in its environment, as docs/your_training.md lists. Python
    finds modules in the start directory, and writes its output unbuffered. After the last epoch of
    a complete trial the script goes on to its exit, or to a further report, which ends it.
    """

    runs_on = True

    def _prepare(self, assignment: Assignment) -> None:
        context = self._context
        command, config, checkpoint = self._begin_process(assignment)
        seed = config.get(SEED, context.constants[SEED])
        arguments = command.resolve_paths(start_dir()).build_arguments(config, seed)
        environment = self._build_environment(checkpoint, config, seed)
        assert self._process is not None
        children = self._process.children
        children.start_guard()
        self._goes_on_from = assignment.epoch
        print(f"$ {shlex.join(arguments)}")
        self._running = Script(
            arguments,
            environment,
            metric=context.objective.metric,
            on_report=self._take_checkpoint,
        )
        children.remove_at_death(self._running.folder)

    def _build_environment(
        self, checkpoint: Path | None, config: dict[str, Any], seed: int
    ) -> dict[str, str]:
        folder = self._files.parent / "checkpoints"
        self._new = folder / "new"
        self._taken = folder / "taken"
        ExperimentFolder(self._context.folder).create_folder(folder)
        for stale in (self._new, self._taken):  # of a process that was killed
            shutil.rmtree(stale, ignore_errors=True)
        self._new.mkdir()
        path = os.pathsep.join(
            filter(None, [str(start_dir()), os.environ.get("PYTHONPATH")])
        )
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            "TUNER_CONFIG": json.dumps(config),
            "TUNER_SEED": str(seed),
            "TUNER_CHECKPOINT_DIR": str(self._new),
        }
        environment.setdefault("OMP_NUM_THREADS", str(self._context.threads))
        if checkpoint is not None:
            environment["TUNER_RESUME_FROM"] = str(checkpoint)
        return environment

    def _take_checkpoint(self) -> Path | None:
        """Move what the script has written, while it waits; None if there is nothing."""
        written = sorted(self._new.iterdir())
        if not written:
            return None
        shutil.rmtree(self._taken, ignore_errors=True)
        self._taken.mkdir()
        for path in written:
            path.rename(self._taken / path.name)
        return self._taken

    def _report(self) -> dict[str, Any]:
        report = self._running.next_report()
        if report is None:
            return self._report_exit(self._running)
        if self._is_whole:
            return ray_compat.build_end_report()
        metrics, files = report
        if isinstance(metrics, dict):
            self._epoch = self._resolve_epoch(metrics.pop("epoch", None)) - 1
        return self._record_with_checkpoint(
            metrics, files and files.rename, is_last=is_last_report(metrics)
        )

    def _resolve_epoch(self, reported: object) -> int:
        """The epoch of a report. A script may count from 0, leave some out, or not count at all."""
        following, self._goes_on_from, before = self._epoch + 1, 0, self._goes_on_from
        if not isinstance(reported, int | float) or not float(reported).is_integer():
            return following
        if reported < before:
            print(
                f"did not go on from $TUNER_RESUME_FROM (epoch {before}), but begins anew"
            )
            return max(1, int(reported))
        if 0 < reported <= self._epoch:
            print(
                f"epoch {int(reported)} was reported before: this report is of {following}"
            )
        return max(following, int(reported))

    def _report_exit(self, script: Script) -> dict[str, Any]:
        """The end of a trial whose script has ended by itself."""
        code = script.exit_code
        assert code is not None
        if code == 0 and self._epoch > 0:
            return ray_compat.build_end_report()
        if code == 0:
            metric = self._context.objective.metric
            report_it = f"call tuner.report({metric}=...) after each epoch"
            self._failure = Failure(
                "bad_report", f"ended without a report of {metric!r}: {report_it}"
            )
        else:
            self._failure = build_exit_failure(code, script.last_lines)
        print(self._failure.message)
        return self._report_failure()

    def _find_reuse_fault(self) -> str | None:
        return None  # a script cannot harm this process

    def _stop(self, running: Any) -> None:
        if running.exit_code is None:
            print(f"ended after epoch {self._epoch}: the script gets SIGTERM")
        running.end()
        for folder in (self._new, self._taken):
            shutil.rmtree(folder, ignore_errors=True)
