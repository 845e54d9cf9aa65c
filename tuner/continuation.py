"""What a resumed experiment goes on from, told by its journal alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tuner.assignment import Assignment
from tuner.checkpoints import Checkpoint, verified
from tuner.errors import CheckpointError
from tuner.events import INTERRUPTED, RESULT, RUNNING, Event
from tuner.history import History, TrialRecord, fold


@dataclass(frozen=True, slots=True)
class Past:
    """What was before: every event in order, and the history that they fold into."""

    events: tuple[Event, ...] = ()
    history: History = field(default_factory=lambda: fold(()))
    resumed: bool = False

    @classmethod
    def of(cls, events: Iterable[Event]) -> Past:
        """The past of an experiment that is resumed."""
        told = tuple(events)
        return cls(told, fold(told), resumed=True)

    def reports(self) -> Iterator[tuple[str, int, dict[str, float]]]:
        """(trial_id, epoch, metrics) of every report, in the order of the journal."""
        for event in self.events:
            if event["event"] == RESULT:
                yield event["trial_id"], event["epoch"], event["metrics"]

    def last_epochs(self) -> dict[str, int]:
        """The last journaled epoch of each trial."""
        return {trial_id: trial.last_epoch for trial_id, trial in self.history.trials.items()}

    def unfinished(self) -> list[TrialRecord]:
        """The trials that had not ended, in order of creation."""
        open_statuses = (RUNNING, INTERRUPTED)
        return [t for t in self.history.trials.values() if t.status in open_statuses]


def newest_checkpoint(folder: Path, trial: TrialRecord) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint of `trial` that is whole, and what was wrong with newer ones.

    One of an epoch whose report is not journaled is passed over: the epoch is run again.
    """
    wrong: list[str] = []
    records = {record.epoch: record for record in trial.checkpoints}  # the last one of an epoch
    for epoch in sorted(records, reverse=True):
        if epoch > trial.last_epoch:
            continue
        try:
            return verified(folder, records[epoch], trial.trial_id), wrong
        except CheckpointError as error:
            wrong.append(str(error))
    return None, wrong


def assignment_of(folder: Path, trial: TrialRecord) -> tuple[Assignment, list[str]]:
    """Where `trial` goes on, and warnings to be told."""
    checkpoint, wrong = newest_checkpoint(folder, trial)
    if checkpoint is None:
        return Assignment(trial.trial_id, trial.config), wrong
    place = {
        "path": checkpoint.path.relative_to(folder).as_posix(),
        "sha256": checkpoint.sha256,
    }
    return Assignment(trial.trial_id, trial.config, checkpoint.epoch, place), wrong
