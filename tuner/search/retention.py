"""The checkpoints that trials keep and go on from.

An ended trial keeps its newest and its best checkpoint. A running one keeps one more, in case a
power cut tears the newest. A resume removes files that a kill has left unjournaled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tuner.errors import CheckpointError, UsageError
from tuner.experiment import events
from tuner.experiment.files import resolve_path
from tuner.experiment.folder import ExperimentFolder, Sync
from tuner.experiment.history import History
from tuner.experiment.results.selection import find_best_checkpoint
from tuner.experiment.trials import TrialRecord
from tuner.spec.sections import Objective
from tuner.trial.checkpoints import PARTIAL_FILE
from tuner.trial.context import Assignment

_OF_TUNER = re.compile(r"trials/\d+/checkpoints/\d+(\.partial)?(?=/)")
_log = logging.getLogger(__name__)


def build_assignment(folder: ExperimentFolder, trial: TrialRecord) -> Assignment:
    """The assignment to go on with, from the newest usable checkpoint with a report."""
    begun = Assignment(
        trial.trial_id, trial.config, reported=trial.last_epoch, seed=trial.seed
    )
    # The last one of an epoch
    records = {record.epoch: record for record in trial.checkpoints}
    for epoch in sorted((n for n in records if n <= trial.last_epoch), reverse=True):
        try:
            checkpoint = folder.fetch_checkpoint(records[epoch], trial.trial_id)
        except CheckpointError as error:
            _log.warning("%s; going back to the one before", error)
            continue
        path = checkpoint.path.relative_to(folder.path).as_posix()
        source = {"path": path, "sha256": checkpoint.sha256}
        reports = (report for report in trial.results if report.epoch <= epoch)
        earlier = tuple((report.epoch, report.metrics) for report in reports)
        return replace(begun, epoch=epoch, checkpoint=source, earlier=earlier)
    return begun


class Retention:
    """Removes checkpoints as newer and better ones are journaled. sync: removes them safely."""

    def __init__(
        self, folder: Path, history: History, objective: Objective, *, sync: Sync
    ) -> None:
        self._folder = folder
        self._history = history
        self._objective = objective
        self._sync = sync

    def __call__(self, event: events.Event) -> None:
        """Take one event; a checkpoint, or its trial's end, removes older ones."""
        if event["event"] == events.CHECKPOINT:
            self._sync.notify_saved(self._folder / event["path"])
            self._prune(event["trial_id"], event["epoch"], runs=True)
        elif (
            event["event"] == events.TRIAL_ENDED
            and event["status"] != events.INTERRUPTED
        ):
            trial = self._history.trials[event["trial_id"]]
            if trial.checkpoints:
                self._prune(trial.trial_id, trial.checkpoints[-1].epoch, runs=False)

    def _prune(self, trial_id: str, newest: int, *, runs: bool) -> None:
        trial = self._history.trials[trial_id]
        paths = {record.epoch: record.path for record in trial.checkpoints}
        best = find_best_checkpoint(trial, self._objective)
        before = (
            max((epoch for epoch in paths if epoch < newest), default=None)
            if runs
            else None
        )
        for epoch in paths.keys() - {newest, before, best and best.epoch}:
            self._remove(paths[epoch], epoch)
            self._history.drop_checkpoint(trial.trial_id, epoch)

    def _remove(self, path: str, epoch: int) -> None:
        try:
            target = resolve_path(self._folder, path)
        except CheckpointError:
            return  # an edited journal: nothing outside of the folder is touched
        # trials/ID/checkpoints/EPOCH, whether the path names it or the file in it
        names = target.relative_to(self._folder).parts
        if names[0] == "trials" and names[2:4] == ("checkpoints", str(epoch)):
            self._sync.remove(self._folder.joinpath(*names[:4]))


def remove_leftovers(folder: ExperimentFolder, trials: Iterable[TrialRecord]) -> None:
    """Remove unjournaled checkpoints of `trials` that have not ended well, before they go on."""
    trials = [
        trial
        for trial in trials
        if trial.status not in (events.COMPLETED, events.STOPPED)
    ]
    journaled = {record.path for trial in trials for record in trial.checkpoints}
    try:
        for trial in trials:
            for name in sorted(_find_leftovers(folder, trial, journaled)):
                folder.remove_file(name)
    except (OSError, UsageError) as error:  # they only take space
        reason = error.strerror if isinstance(error, OSError) else error
        _log.warning("cannot remove what a kill has left: %s", reason)


def _find_leftovers(
    folder: ExperimentFolder, trial: TrialRecord, journaled: set[str]
) -> set[str]:
    """The folders that no journal line names, and partial files in those that stay."""
    leftovers = set()
    epochs = {
        match.group() for name in journaled if (match := _OF_TUNER.match(f"{name}/"))
    }
    for name in folder.list_files(f"trials/{trial.trial_id}/checkpoints"):
        if match := _OF_TUNER.match(name):
            epoch = match.group()
            if epoch not in epochs:
                leftovers.add(epoch)
            elif epoch not in journaled and name == f"{epoch}/{PARTIAL_FILE}":
                leftovers.add(name)
    return leftovers
