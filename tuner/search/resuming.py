"""What a resumed experiment goes on from, told by its journal alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, JournalError, UsageError
from tuner.record.checkpoints import Checkpoint, verified
from tuner.record.events import FAILED, INTERRUPTED, RESULT, RUNNING, Event
from tuner.record.history import History, TrialRecord, fold
from tuner.trial.context import Assignment


@dataclass(frozen=True, slots=True)
class Extension:
    """What a resume adds to an experiment.

    add_samples: more trials. time_budget_s: a new time budget, in seconds from the resume.
    retry_failed: failed trials go on, too.
    """

    add_samples: int = 0
    time_budget_s: float | None = None
    retry_failed: bool = False

    @property
    def changes_the_spec(self) -> bool:
        """Whether the experiment is another one from now on."""
        return bool(self.add_samples or self.time_budget_s)

    def applied_to(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The spec's plain values, extended. Raises UsageError where it has no number to add to."""
        changed = dict(raw)
        if self.add_samples:
            if not isinstance(changed.get("num_samples"), int):
                raise UsageError("--add-samples needs an experiment with a number of samples")
            changed["num_samples"] += self.add_samples
        if self.time_budget_s:
            changed["time_budget_s"] = self.time_budget_s
        return changed


@dataclass(frozen=True, slots=True)
class Past:
    """What was before: every event in order, and the history that they fold into."""

    events: tuple[Event, ...] = ()
    history: History = field(default_factory=lambda: fold(()))
    resumed: bool = False
    retry_failed: bool = False

    @classmethod
    def of(cls, events: Iterable[Event], *, metric: str, retry_failed: bool = False) -> Past:
        """The past of an experiment that is resumed, whose objective is `metric`.

        Raises JournalError for a report without it: no search writes one, none could go on from it.
        """
        told = tuple(events)
        for event in told:
            if event["event"] == RESULT and metric not in event["metrics"]:
                report = f"the report of trial {event['trial_id']}, epoch {event['epoch']}"
                raise JournalError(f"{report}, lacks the objective {metric!r}")
        return cls(told, fold(told), resumed=True, retry_failed=retry_failed)

    def reports(self) -> Iterator[tuple[str, int, dict[str, float]]]:
        """(trial_id, epoch, metrics) of every report, in the order of the journal."""
        for event in self.events:
            if event["event"] == RESULT:
                yield event["trial_id"], event["epoch"], event["metrics"]

    def last_epochs(self) -> dict[str, int]:
        """The last journaled epoch of each trial."""
        return {trial_id: trial.last_epoch for trial_id, trial in self.history.trials.items()}

    def unfinished(self) -> list[TrialRecord]:
        """The trials that go on, in order of creation: those that had not ended, or had failed."""
        going_on = {RUNNING, INTERRUPTED, *([FAILED] if self.retry_failed else [])}
        return [t for t in self.history.trials.values() if t.status in going_on]


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
        return Assignment(trial.trial_id, trial.config, seed=trial.seed), wrong
    place = {
        "path": checkpoint.path.relative_to(folder).as_posix(),
        "sha256": checkpoint.sha256,
    }
    assignment = Assignment(trial.trial_id, trial.config, checkpoint.epoch, place, seed=trial.seed)
    return assignment, wrong
