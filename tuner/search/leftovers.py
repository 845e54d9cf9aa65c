"""What a kill has left among the checkpoints: files of which no line of the journal tells.

A checkpoint is written, and then journaled. Between the two a kill leaves one that nothing will go
on from, or half of one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from tuner.errors import UsageError
from tuner.experiment.events import COMPLETED, STOPPED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.trials import TrialRecord
from tuner.trial.checkpoint_store import PARTIAL_FILE

_log = logging.getLogger(__name__)

_OF_TUNER = re.compile(r"trials/\d+/checkpoints/\d+(\.partial)?(?=/)")


def sweep(folder: ExperimentFolder, trials: Iterable[TrialRecord]) -> None:
    """Remove what those of `trials` that have not ended well have saved without a line.

    Only before any of them goes on: an epoch that is run again has the same name. What a line
    names stays, also where it was to be removed; so does whatever is no checkpoint of ours.
    """
    trials = [trial for trial in trials if trial.status not in (COMPLETED, STOPPED)]
    named = {record.path for trial in trials for record in trial.checkpoints}
    try:
        for trial in trials:
            for name in sorted(_leftovers(folder, trial, named)):
                folder.remove_file(name)
    except (OSError, UsageError) as error:  # they cost nothing but their room
        reason = error.strerror if isinstance(error, OSError) else error
        _log.warning("cannot remove what a kill has left: %s", reason)


def _leftovers(folder: ExperimentFolder, trial: TrialRecord, named: set[str]) -> set[str]:
    """The folders, and files in those that stay, that no line names."""
    found = set()
    epochs = {match.group() for name in named if (match := _OF_TUNER.match(f"{name}/"))}
    for name in folder.files_below(f"trials/{trial.trial_id}/checkpoints"):
        if match := _OF_TUNER.match(name):
            epoch = match.group()
            if epoch not in epochs:
                found.add(epoch)
            elif epoch not in named and name == f"{epoch}/{PARTIAL_FILE}":
                found.add(name)
    return found
