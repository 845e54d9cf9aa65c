"""The process that runs a trial's code, and the folder that the trial works in.

Trials cannot overwrite each other's files by relative paths. Files in the directory where the
search was started need a path from there (`tuner.start_dir`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.errors import StorageError, translate_error
from tuner.experiment.folder import ExperimentFolder
from tuner.places import START_DIR, TRIAL_DIR, shown
from tuner.spec.loading import is_learner, load_trainable
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.failures import Failure, failure_of
from tuner.trial.gpus import claim, take
from tuner.trial.guard import Children
from tuner.trial.memory import held_mib, release

BOUND_MIB = 512.0  # that a process may keep of its earlier trials
RAISED = ("exception", "oom")  # failures that may leave anything behind; a NaN leaves nothing
STAYS = "stays_in_start_dir"  # the attribute of a trainable that is not to work in the folder


class WorkerReplacedError(RuntimeError):
    """Ends a worker's process that cannot run the next trial, which then goes elsewhere."""


def is_recycled(error: BaseException | None) -> bool:
    """Whether a trial ended only because its process was not to be used again."""
    return isinstance(getattr(error, "cause", error), WorkerReplacedError)


def why_not_again(
    *, failure: Failure | None = None, grown_mib: float = 0.0, ended_children: int = 0
) -> str | None:
    """Why a process cannot run another trial, or None.

    failure: of its last trial. grown_mib: memory kept, as `Leftovers` counts it. ended_children:
    processes of the trial that had to be ended, on which its modules may still rely.

    >>> why_not_again(failure=Failure("nan", "'val_loss' is nan"), grown_mib=20) is None
    True
    >>> why_not_again(grown_mib=600)
    'it has kept 600 MiB of earlier trials'
    """
    if failure is not None and failure.poisoned:
        return "its device cannot be used any more"
    if failure is not None and failure.kind in RAISED:
        return f"a trial failed in it ({failure.kind})"
    if ended_children:
        return f"a trial left {ended_children} process{'es' * (ended_children > 1)} running"
    if grown_mib > BOUND_MIB:
        return f"it has kept {grown_mib:.0f} MiB of earlier trials"
    return None


class Leftovers:
    """What a process keeps from its trials.

    grown_mib: MiB, at least 0, beyond what it kept after the first trial. Imports, data and the
    allocator's reserves are made once, in the first trial.
    """

    def __init__(self, held: Callable[[], float] = held_mib) -> None:
        self.grown_mib = 0.0
        self._held = held
        self._first_mib: float | None = None
        self._put_back: Callable[[], None] | None = None
        self._environment: dict[str, str] | None = None
        self.children = Children()

    def begin(self) -> None:
        """Note the process's state once the trial's modules are imported, before it begins."""
        self._environment = dict(os.environ)
        self.children.begin()
        if "torch" in sys.modules:
            from tuner.trial.torch_compat import remember_numerics

            self._put_back = remember_numerics()

    def clear(self) -> str | None:
        """Undo the settings of the ended trial, end its children, and release its memory.

        Returns why the process should not run another trial, or None.
        """
        if self._put_back is not None:
            self._put_back()
        if self._environment is not None:
            for name in os.environ.keys() - self._environment.keys():
                del os.environ[name]
            os.environ.update(self._environment)
        unusable = _released()
        ended = self.children.end()
        self.grown_mib = self._growth()
        return unusable or why_not_again(grown_mib=self.grown_mib, ended_children=ended)

    def _growth(self) -> float:
        now = self._held()
        if self._first_mib is None:
            self._first_mib = now
            # What is there now stays. Later collections pass over it; else each would take 0.2 s
            # between two short trials
            gc.freeze()
        return max(0.0, now - self._first_mib)


def _released() -> str | None:
    """Release unused memory; returns why the process cannot run another trial, or None.

    After some errors every call to the device fails, these too. That is the failure of the last
    trial only, and the rest is still cleared.
    """
    try:
        if "torch" in sys.modules:
            from tuner.trial.torch_compat import forget_compiled

            forget_compiled()
        release()
    except RuntimeError as error:
        return why_not_again(failure=replace(failure_of(error), poisoned=True))
    return None


_COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"


class TrialProcess:
    """A process that runs one trial after another, each in a folder of its own."""

    def __init__(self, context: TrialContext) -> None:
        # Whatever is compiled here: torch would start a process for each CPU of the machine
        os.environ.setdefault(_COMPILE_THREADS, str(max(1, int(context.cpus))))
        take(context.gpus)  # before a user's module looks for them as it is imported
        self._context = context
        self._folder: Path | None = None
        self._leftovers = Leftovers()

    def begin(self, assignment: Assignment) -> Any:
        """Go to the trial's folder, and return the trainable.

        Its module is imported in the start directory; its effects stay for all trials. Raises the
        errors of the module, StorageError, and NoGpuError if a reserved GPU is missing.
        """
        trainable = load_trainable(self._context.trainable)
        claim(self._context.gpus, through_torch=is_learner(trainable))
        self._leftovers.begin()
        self._start, self._folder = Path.cwd(), self._context.files(assignment.trial_id)
        os.environ |= {START_DIR: str(self._start), TRIAL_DIR: str(self._folder)}
        if not getattr(trainable, STAYS, False):
            with translate_error(StorageError, f"cannot write {shown(self._folder)}", of=OSError):
                ExperimentFolder(self._context.folder).make_folder(self._folder)
                os.chdir(self._folder)
        return trainable

    def guard(self) -> None:
        """End what the trial starts with this process, even if it is killed."""
        self._leftovers.children.guard()

    def end(self) -> str | None:
        """Undo what the trial has changed, and remove its folder if that is empty.

        Returns why this process should not run another trial, or None.
        """
        if self._folder is not None:
            with suppress(FileNotFoundError):  # removed meanwhile
                os.chdir(self._start)
            with suppress(OSError):  # not empty, or of another rank that has removed it
                self._folder.rmdir()
            self._folder = None
        return self._leftovers.clear()
