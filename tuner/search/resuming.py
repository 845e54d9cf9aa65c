"""What a resume adds to an experiment, and from which checkpoint each trial goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import CheckpointError, JournalError, UsageError
from tuner.record.checkpoints import Checkpoint
from tuner.record.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    FAILED,
    INTERRUPTED,
    RESULT,
    RUNNING,
    STOPPED,
    TARGET,
    TRIAL_ENDED,
    Event,
)
from tuner.record.folder import ExperimentFolder
from tuner.record.history import History, TrialRecord
from tuner.record.reading import last_event
from tuner.results.results import Results
from tuner.spec.by_value import bare_name, given_again, is_by_value
from tuner.spec.experiment import trainable_text
from tuner.trial.context import Assignment

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingScheduler


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
        """Whether the experiment has another spec from now on."""
        return bool(self.add_samples or self.time_budget_s)

    def applied_to(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The spec's plain values, extended. Raises UsageError if it has no number to add to."""
        changed = dict(raw)
        if self.add_samples:
            if not isinstance(changed.get("num_samples"), int):
                raise UsageError("--add-samples needs an experiment with a number of samples")
            changed["num_samples"] += self.add_samples
        if self.time_budget_s:
            changed["time_budget_s"] = self.time_budget_s
        return changed


def finished(folder: Path, more: Extension) -> Results | None:
    """The results of an experiment of which nothing is left to do; None where there is."""
    if more.changes_the_spec or not _says_completed(folder):
        return None
    results = Results(folder)
    if results.ended_by == TARGET:
        return results
    rest = unfinished(results.history, retry_failed=more.retry_failed)
    is_over = results.status == COMPLETED and results.ended_by is None
    return results if is_over and not rest else None


def _says_completed(folder: Path) -> bool:
    """Whether the journal ends so: to read all of it may take seconds."""
    event = last_event(folder) or {}
    return event.get("event") == EXPERIMENT_ENDED and event.get("status") == COMPLETED


def trainable_of(recorded: str, given: object, folder: Path) -> str:
    """The trainable that a resume of the experiment in `folder` trains: the recorded one.

    given: None, or what Python gives, which has to be it. Raises UsageError where it is not, and
    where the recorded one was given by value and is not given again.
    """
    if given is None:
        if is_by_value(recorded):
            call = f"tuner.resume_experiment({str(folder)!r}, {given_again(recorded)})"
            raise UsageError(
                f"{folder.name} trains {recorded}, of a script or a notebook, and only Python can "
                f"give it again: {call}"
            )
        return recorded
    named = trainable_text(given)
    same = is_by_value(recorded) and bare_name(named) == bare_name(recorded)
    if named != recorded and not same:
        raise UsageError(f"{folder.name} trains {recorded}, and was given {named} to go on with")
    return named


def as_begun(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded `spec`, with what was meant before there was a setting for it.

    Grids had one order, which decides what is left to try.
    """
    search = spec.get("search")
    if isinstance(search, Mapping) and search.get("strategy") == "grid":
        search = {"order": "rows", **search}
    return {**spec, "search": search}


def restored(
    events: Iterable[Event], history: History, scheduler: StoppingScheduler | None, metric: str
) -> Iterator[Event]:
    """The events of the runs before, each once `history` and `scheduler` have taken it in.

    Raises JournalError for a report without the objective's `metric`: no search writes one, and
    none could go on from it.
    """
    for event in events:
        if event["event"] == RESULT:
            trial_id, epoch = event["trial_id"], event["epoch"]
            if metric not in event["metrics"]:
                report = f"the report of trial {trial_id}, epoch {epoch}"
                raise JournalError(f"{report}, lacks the objective {metric!r}")
            if scheduler is not None:
                scheduler.record(trial_id, epoch, event["metrics"])
        history.apply(event)
        if event["event"] == TRIAL_ENDED and event["status"] in (COMPLETED, STOPPED):
            history.trials[event["trial_id"]].checkpoints.clear()  # none goes on from them
        yield event


def unfinished(history: History, *, retry_failed: bool = False) -> list[TrialRecord]:
    """The trials that go on, by their ids: those that had not ended, or, if asked, had failed."""
    statuses = [RUNNING, INTERRUPTED, *([FAILED] if retry_failed else [])]
    return sorted(history.of_status(*statuses), key=lambda trial: int(trial.trial_id))


def newest_checkpoint(
    folder: ExperimentFolder, trial: TrialRecord
) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint of `trial`, and what was wrong with newer ones.

    One of an epoch whose report is not journaled is passed over: the epoch is run again.
    """
    faults: list[str] = []
    records = {record.epoch: record for record in trial.checkpoints}  # the last one of an epoch
    for epoch in sorted(records, reverse=True):
        if epoch > trial.last_epoch:
            continue
        try:
            return folder.checkpoint(records[epoch], trial.trial_id), faults
        except CheckpointError as error:
            faults.append(str(error))
    return None, faults


def assignment_of(folder: ExperimentFolder, trial: TrialRecord) -> tuple[Assignment, list[str]]:
    """Where `trial` goes on, and warnings to show."""
    checkpoint, faults = newest_checkpoint(folder, trial)
    begun = Assignment(trial.trial_id, trial.config, reported=trial.last_epoch, seed=trial.seed)
    if checkpoint is None:
        return begun, faults
    place = {
        "path": checkpoint.path.relative_to(folder.path).as_posix(),
        "sha256": checkpoint.sha256,
    }
    return replace(begun, epoch=checkpoint.epoch, checkpoint=place), faults
