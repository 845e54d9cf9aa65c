"""The process that a trial's own code runs in: what the code finds there, and what it leaves."""

from __future__ import annotations

from typing import Any

from tuner.trial.context import Assignment, TrialContext
from tuner.trial.loading import load_trainable
from tuner.trial.recycling import Leftovers
from tuner.trial.working_directory import STAYS, WorkingDirectory


class TrialProcess:
    """This process, as one trial after the other trains in it."""

    def __init__(self, context: TrialContext) -> None:
        self._context = context
        self._directory = WorkingDirectory(context.folder)
        self._leftovers = Leftovers()

    def begin(self, assignment: Assignment) -> Any:
        """Go to the trial's folder; the trainable. Raises what its module does, and StorageError.

        The module is imported where the search was started. What it sets then stays for all trials.
        """
        trainable = load_trainable(self._context.trainable)
        self._leftovers.begin()
        stays = getattr(trainable, STAYS, False)
        self._directory.enter(self._context.files(assignment.trial_id), stays=stays)
        return trainable

    def end(self) -> str | None:
        """Put back what the trial has changed; why this process should not train another trial."""
        self._directory.leave()
        return self._leftovers.clear()
