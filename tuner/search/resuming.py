"""What a resume adds to an experiment, and the checkpoint from which each trial goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tuner.errors import CheckpointError, JournalError, UsageError
from tuner.experiment import events
from tuner.experiment.changes import Lengths, changed, lengths_of
from tuner.experiment.checkpoints import Checkpoint
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History, fold
from tuner.experiment.reading import last_event
from tuner.experiment.results.results import Results
from tuner.experiment.steered import REQUESTED
from tuner.experiment.trials import TrialRecord
from tuner.spec.by_value import bare_name, is_by_value, python_argument
from tuner.spec.code import refuse_elsewhere
from tuner.spec.experiment import build_spec, trainable_text
from tuner.spec.sections import Objective
from tuner.spec.strategies import ModelSettings
from tuner.trial.context import Assignment

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import InOrder

_AS_EVER = Lengths()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Extension:
    """What a resume adds. time_budget_s: from the resume on. changes: see `experiment.changes`.

    retry_failed: failed trials go on, too. notify: new targets.
    """

    add_samples: int = 0
    time_budget_s: float | None = None
    retry_failed: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    notify: tuple[str, ...] = ()

    def applied_to(self, document: Mapping[str, Any], files: ExperimentFolder) -> dict[str, Any]:
        """`document`, experiment.json, extended. Raises UsageError without a number of samples, and
        as `changes.changed`.
        """
        changes = dict(self.changes)
        if self.add_samples:
            samples = changes.get("num_samples", document["spec"].get("num_samples"))
            if not isinstance(samples, int):
                raise UsageError("--add-samples needs an experiment with a number of samples")
            trials = fold(files.events()).trials.values()
            begun = sum(trial.origin != REQUESTED for trial in trials)
            # A control may have lowered the number of samples below those that have begun
            changes["num_samples"] = max(samples, begun) + self.add_samples
        if self.time_budget_s:
            changes["time_budget_s"] = self.time_budget_s
        extended = changed(document, changes, name=files.name)
        search, before = extended["spec"]["search"], document["spec"]["search"]
        if search["space"] != before["space"] and before.get("points_to_evaluate"):
            completed = {**search, "points_to_evaluate": _first_configs(document, files.name)}
            extended["spec"] = {**extended["spec"], "search": completed}
        if self.notify:
            extended["spec"] = {**extended["spec"], "notify": list(self.notify)}
        return extended


def _first_configs(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The recorded `points_to_evaluate`, completed: in another space they would come again."""
    from tuner.search.searchers._learning import first_configs

    spec = build_spec(document["spec"], name)
    return first_configs(cast(ModelSettings, spec.search), spec.seed)


def finished(folder: Path, more: Extension) -> Results | None:
    """The results if nothing is left to do, or None. Raises as `Extension.applied_to`."""
    files = ExperimentFolder(folder)
    before = files.document()
    document = replace(more, notify=()).applied_to(before, files)
    end = last_event(folder) or {}  # reading the complete journal may take seconds
    if (end.get("event"), end.get("status")) != (events.EXPERIMENT_ENDED, events.COMPLETED):
        return None
    reason, target = end.get("reason"), (document["spec"].get("stop") or {}).get("target")
    if reason == events.TARGET and target is not None:
        results = Results(folder)
        key, best = results.objective.key, results.history.best
        return results if best is not None and key(best.value) <= key(target) else None
    if document != before or reason not in (None, events.UTILITY):
        return None
    if reason == events.UTILITY and not more.retry_failed:
        return Results(folder)  # it would decide as it did
    results = Results(folder)
    lengths = lengths_of(document, results.spec)
    left = unfinished(results.history, retry_failed=more.retry_failed)
    left += filter(lengths.reopens, results.trials.values())
    return None if left or results.status != events.COMPLETED else results


def trainable_of(recorded: str, trainable: object, folder: Path) -> str:
    """The recorded trainable, checked. trainable: as a Python object, or None.

    Raises UsageError if they differ, it is needed but None, or trials run elsewhere.
    """
    refuse_elsewhere(recorded)
    if trainable is None:
        if is_by_value(recorded):
            call = f"tuner.resume_experiment({str(folder)!r}, {python_argument(recorded)})"
            raise UsageError(
                f"{folder.name} trains {recorded}, of a script or a notebook, and only Python can "
                f"give it again: {call}"
            )
        return recorded
    path = trainable_text(trainable)
    same = is_by_value(recorded) and bare_name(path) == bare_name(recorded)
    if path != recorded and not same:
        raise UsageError(f"{folder.name} trains {recorded}, and was trainable {path} to go on with")
    return path


def restored(
    journaled: Iterable[events.Event],
    history: History,
    scheduler: InOrder,
    metric: str,
    lengths: Lengths = _AS_EVER,
) -> Iterator[events.Event]:
    """The earlier events, each after `history` and `scheduler` have taken it in.

    Trials completed at a shorter length are reopened. Raises JournalError without the objective.
    """
    for event in journaled:
        if event["event"] == events.RESULT:
            trial_id, epoch = event["trial_id"], event["epoch"]
            if metric not in event["metrics"]:
                report = f"the report of trial {trial_id}, epoch {epoch}"
                raise JournalError(f"{report}, lacks the objective {metric!r}")
            trial = history.trials.get(trial_id)
            known_id = trial.trial_id if trial else trial_id  # saves the memory of another string
            scheduler.record(known_id, epoch, event["metrics"])
            if lengths.now is not None and epoch >= lengths.now:
                scheduler.stopped.discard(known_id)  # a complete trial is never stopped
        history.apply(event)
        if event["event"] == events.TRIAL_ENDED and event["status"] in (
            events.COMPLETED,
            events.STOPPED,
        ):
            trial = history.trials[event["trial_id"]]
            if lengths.reopens(trial):
                history.reopen(trial.trial_id)
            else:
                history.settle(trial.trial_id)
        yield event


def has_failed(history: History) -> bool:
    """Whether the search has ended without a usable trial: a resume runs the failed ones again."""
    return history.status == events.FAILED and history.best is None


def unfinished(history: History, *, retry_failed: bool = False) -> list[TrialRecord]:
    """The trials that had not ended, and with `retry_failed` the failed ones, sorted by id."""
    statuses = [events.RUNNING, events.INTERRUPTED, *([events.FAILED] if retry_failed else [])]
    return sorted(history.of_status(*statuses), key=lambda trial: int(trial.trial_id))


def in_turn(
    trials: Iterable[TrialRecord], lengths: Lengths, objective: Objective
) -> list[TrialRecord]:
    """Unfinished trials in the order in which they go on: reopened ones last, the best first."""

    def turn(trial: TrialRecord) -> tuple[bool, float]:
        reopened = trial.last_epoch in lengths.before
        return reopened, objective.key(trial.best.value) if reopened and trial.best else 0.0

    return sorted(trials, key=turn)


def newest_checkpoint(
    folder: ExperimentFolder, trial: TrialRecord
) -> tuple[Checkpoint | None, list[str]]:
    """The newest usable checkpoint with a journaled report, and faults of newer ones."""
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


def assignment_of(folder: ExperimentFolder, trial: TrialRecord) -> Assignment:
    """The assignment with which `trial` goes on; warns if its newest checkpoint is unusable."""
    checkpoint, faults = newest_checkpoint(folder, trial)
    begun = Assignment(trial.trial_id, trial.config, reported=trial.last_epoch, seed=trial.seed)
    for fault in faults:
        _log.warning("%s; going back to the one before", fault)
    if checkpoint is None:
        return begun
    source = {
        "path": checkpoint.path.relative_to(folder.path).as_posix(),
        "sha256": checkpoint.sha256,
    }
    return replace(begun, epoch=checkpoint.epoch, checkpoint=source)
