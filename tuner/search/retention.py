"""Keeps the newest and the best checkpoint of each trial.

A running trial keeps one more, in case a power cut tears the newest. A resume sweeps away what a
kill has left unjournaled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from tuner.errors import CheckpointError, UsageError
from tuner.experiment.checkpoints import inside
from tuner.experiment.events import CHECKPOINT, COMPLETED, INTERRUPTED, STOPPED, TRIAL_ENDED, Event
from tuner.experiment.folder import ExperimentFolder, Sync
from tuner.experiment.history import History
from tuner.experiment.results.selection import best_record
from tuner.experiment.trials import TrialRecord
from tuner.spec.sections import Objective
from tuner.trial.checkpoint_store import PARTIAL_FILE

_log = logging.getLogger(__name__)

_OF_TUNER = re.compile(r"trials/\d+/checkpoints/\d+(\.partial)?(?=/)")


class Retention:
    """Removes checkpoints as newer and better ones are journaled. sync: removes them safely."""

    def __init__(self, folder: Path, history: History, objective: Objective, *, sync: Sync) -> None:
        self._folder, self._history, self._objective = folder, history, objective
        self._sync = sync

    def __call__(self, event: Event) -> None:
        """Take one event; a checkpoint, or its trial's end, removes older ones."""
        if event["event"] == CHECKPOINT:
            self._sync.saved(self._folder / event["path"])
            self._prune(event["trial_id"], event["epoch"], runs=True)
        elif event["event"] == TRIAL_ENDED and event["status"] != INTERRUPTED:
            trial = self._history.trials[event["trial_id"]]
            if trial.checkpoints:
                self._prune(trial.trial_id, trial.checkpoints[-1].epoch, runs=False)

    def _prune(self, trial_id: str, newest: int, *, runs: bool) -> None:
        trial = self._history.trials[trial_id]
        paths = {record.epoch: record.path for record in trial.checkpoints}
        best = best_record(trial, self._objective)
        before = max((epoch for epoch in paths if epoch < newest), default=None) if runs else None
        for epoch in paths.keys() - {newest, before, best and best.epoch}:
            self._remove(paths[epoch], epoch)
            self._history.drop_checkpoint(trial.trial_id, epoch)

    def _remove(self, path: str, epoch: int) -> None:
        try:
            target = inside(self._folder, path)
        except CheckpointError:
            return  # an edited journal: nothing outside of the folder is touched
        # trials/ID/checkpoints/EPOCH, whether the path names it or the file in it
        names = target.relative_to(self._folder).parts
        if names[0] == "trials" and names[2:4] == ("checkpoints", str(epoch)):
            self._sync.remove(self._folder.joinpath(*names[:4]))


def sweep(folder: ExperimentFolder, trials: Iterable[TrialRecord]) -> None:
    """Remove unjournaled checkpoints of `trials` that have not ended well, before they go on."""
    trials = [trial for trial in trials if trial.status not in (COMPLETED, STOPPED)]
    journaled = {record.path for trial in trials for record in trial.checkpoints}
    try:
        for trial in trials:
            for name in sorted(_leftovers(folder, trial, journaled)):
                folder.remove_file(name)
    except (OSError, UsageError) as error:  # they only take space
        reason = error.strerror if isinstance(error, OSError) else error
        _log.warning("cannot remove what a kill has left: %s", reason)


def _leftovers(folder: ExperimentFolder, trial: TrialRecord, journaled: set[str]) -> set[str]:
    """The folders that no journal line names, and partial files in those that stay."""
    leftovers = set()
    epochs = {match.group() for name in journaled if (match := _OF_TUNER.match(f"{name}/"))}
    for name in folder.files_below(f"trials/{trial.trial_id}/checkpoints"):
        if match := _OF_TUNER.match(name):
            epoch = match.group()
            if epoch not in epochs:
                leftovers.add(epoch)
            elif epoch not in journaled and name == f"{epoch}/{PARTIAL_FILE}":
                leftovers.add(name)
    return leftovers
