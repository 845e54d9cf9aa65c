"""The process that a trial's own code runs in: what the code finds there, and what it leaves."""

from __future__ import annotations

import os
from typing import Any

from tuner.spec.loading import is_learner, load_trainable
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.recycling import Leftovers
from tuner.trial.reserved_gpu import claim
from tuner.trial.shared_gpus import take
from tuner.trial.working_directory import STAYS, WorkingDirectory

_COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"


class TrialProcess:
    """This process, as one trial after the other trains in it."""

    def __init__(self, context: TrialContext) -> None:
        # Whatever is compiled here: torch would start a process for each CPU of the machine
        os.environ.setdefault(_COMPILE_THREADS, str(max(1, int(context.cpus))))
        take(context.gpus)  # before a user's module looks for them as it is imported
        self._context = context
        self._directory = WorkingDirectory(context.folder)
        self._leftovers = Leftovers()

    def begin(self, assignment: Assignment) -> Any:
        """Go to the trial's folder; the trainable. Raises what its module does, and StorageError.

        NoGpuError where what it reserved is not there.
        The module is imported where the search was started. What it sets then stays for all trials.
        """
        trainable = load_trainable(self._context.trainable)
        claim(self._context.gpus, through_torch=is_learner(trainable))
        self._leftovers.begin()
        stays = getattr(trainable, STAYS, False)
        self._directory.enter(self._context.files(assignment.trial_id), stays=stays)
        return trainable

    def guard(self) -> None:
        """Have what the trial starts ended with this process, however that dies."""
        self._leftovers.children.guard()

    def end(self) -> str | None:
        """Put back what the trial has changed; why this process should not train another trial."""
        self._directory.leave()
        return self._leftovers.clear()
