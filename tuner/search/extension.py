"""What a resume adds to an experiment, and the checkpoints that trials keep and go on from.

An ended trial keeps its newest and its best checkpoint. A running one keeps one more, in case a
power cut tears the newest. A resume removes files that a kill has left unjournaled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tuner.errors import CheckpointError, JournalError, UsageError
from tuner.experiment import events
from tuner.experiment.changes import Lengths, apply_changes, find_lengths
from tuner.experiment.files import resolve_path
from tuner.experiment.folder import ExperimentFolder, Sync
from tuner.experiment.history import History, fold
from tuner.experiment.reading import read_last_event
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_checkpoint
from tuner.experiment.steered import REQUESTED
from tuner.experiment.trials import TrialRecord
from tuner.spec.code import extract_name, format_python_argument, is_by_value, refuse_elsewhere
from tuner.spec.experiment import build_spec, parse_trainable
from tuner.spec.sections import Objective
from tuner.spec.strategies import SampledSettings
from tuner.trial.checkpoints import PARTIAL_FILE
from tuner.trial.context import Assignment

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import InOrder

_AS_EVER = Lengths()
_OF_TUNER = re.compile(r"trials/\d+/checkpoints/\d+(\.partial)?(?=/)")
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

    def apply(self, document: Mapping[str, Any], files: ExperimentFolder) -> dict[str, Any]:
        """The extended `document` (experiment.json). Raises UsageError and as `apply_changes`."""
        changes = dict(self.changes)
        if self.add_samples:
            samples = changes.get("num_samples", document["spec"].get("num_samples"))
            if not isinstance(samples, int):
                raise UsageError("--add-samples needs an experiment with a number of samples")
            trials = fold(files.read_events()).trials.values()
            begun = sum(trial.origin != REQUESTED for trial in trials)
            # A control may have lowered the number of samples below those that have begun
            changes["num_samples"] = max(samples, begun) + self.add_samples
        if self.time_budget_s:
            changes["time_budget_s"] = self.time_budget_s
        extended = apply_changes(document, changes, name=files.name)
        search = extended["spec"]["search"]
        before = document["spec"]["search"]
        if search["space"] != before["space"] and before.get("points_to_evaluate"):
            # Completed, since in another space they would be completed otherwise, and come again
            from tuner.search.searchers._learning import list_first_configs

            recorded = build_spec(document["spec"], files.name, recorded=True)
            points = list_first_configs(cast(SampledSettings, recorded.search), recorded.seed)
            completed = {**search, "points_to_evaluate": points}
            extended["spec"] = {**extended["spec"], "search": completed}
        if self.notify:
            extended["spec"] = {**extended["spec"], "notify": list(self.notify)}
        return extended


def load_if_finished(folder: Path, more: Extension) -> Results | None:
    """The results if nothing is left to do, or None. Raises as `Extension.apply`."""
    files = ExperimentFolder(folder)
    before = files.read_document()
    document = replace(more, notify=()).apply(before, files)
    end = read_last_event(folder) or {}  # reading the complete journal may take seconds
    if (end.get("event"), end.get("status")) != (events.EXPERIMENT_ENDED, events.COMPLETED):
        return None
    reason = end.get("reason")
    target = (document["spec"].get("stop") or {}).get("target")
    if reason == events.TARGET and target is not None:
        results = Results(folder)
        key = results.objective.compute_loss
        best = results.history.best
        return results if best is not None and key(best.value) <= key(target) else None
    if document != before or reason not in (None, events.UTILITY):
        return None
    if reason == events.UTILITY and not more.retry_failed:
        return Results(folder)  # it would decide as it did
    results = Results(folder)
    lengths = find_lengths(document, results.spec)
    left = list_unfinished(results.history, retry_failed=more.retry_failed)
    left += filter(lengths.should_reopen, results.trials.values())
    return None if left or results.status != events.COMPLETED else results


def resolve_trainable(recorded: str, trainable: object, folder: Path) -> str:
    """The recorded trainable, or the equal `trainable`. Raises UsageError."""
    refuse_elsewhere(recorded)
    if trainable is None:
        if is_by_value(recorded):
            call = f"tuner.resume_experiment({str(folder)!r}, {format_python_argument(recorded)})"
            raise UsageError(
                f"{folder.name} trains {recorded}, of a script or a notebook, and only Python can "
                f"pass it again: {call}"
            )
        return recorded
    path = parse_trainable(trainable)
    same = is_by_value(recorded) and extract_name(path) == extract_name(recorded)
    if path != recorded and not same:
        raise UsageError(
            f"{folder.name} trains {recorded}: it takes no other trainable, got {path}"
        )
    return path


def replay_events(
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
            trial_id = event["trial_id"]
            epoch = event["epoch"]
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
            if lengths.should_reopen(trial):
                history.reopen(trial.trial_id)
            else:
                history.compact_trial(trial.trial_id)
        yield event


def list_unfinished(history: History, *, retry_failed: bool = False) -> list[TrialRecord]:
    """The trials that had not ended, and with `retry_failed` the failed ones, sorted by id."""
    statuses = [events.RUNNING, events.INTERRUPTED, *([events.FAILED] if retry_failed else [])]
    return sorted(history.list_by_status(*statuses), key=lambda trial: int(trial.trial_id))


def sort_unfinished(
    trials: Iterable[TrialRecord], lengths: Lengths, objective: Objective
) -> list[TrialRecord]:
    """Unfinished trials in the order in which they go on: reopened ones last, the best first."""

    def rank_trial(trial: TrialRecord) -> tuple[bool, float]:
        reopened = trial.last_epoch in lengths.before
        return reopened, objective.compute_loss(
            trial.best.estimate
        ) if reopened and trial.best else 0.0

    return sorted(trials, key=rank_trial)


def build_assignment(folder: ExperimentFolder, trial: TrialRecord) -> Assignment:
    """The assignment to go on with, from the newest usable checkpoint with a report."""
    begun = Assignment(trial.trial_id, trial.config, reported=trial.last_epoch, seed=trial.seed)
    records = {record.epoch: record for record in trial.checkpoints}  # the last one of an epoch
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

    def __init__(self, folder: Path, history: History, objective: Objective, *, sync: Sync) -> None:
        self._folder = folder
        self._history = history
        self._objective = objective
        self._sync = sync

    def __call__(self, event: events.Event) -> None:
        """Take one event; a checkpoint, or its trial's end, removes older ones."""
        if event["event"] == events.CHECKPOINT:
            self._sync.notify_saved(self._folder / event["path"])
            self._prune(event["trial_id"], event["epoch"], runs=True)
        elif event["event"] == events.TRIAL_ENDED and event["status"] != events.INTERRUPTED:
            trial = self._history.trials[event["trial_id"]]
            if trial.checkpoints:
                self._prune(trial.trial_id, trial.checkpoints[-1].epoch, runs=False)

    def _prune(self, trial_id: str, newest: int, *, runs: bool) -> None:
        trial = self._history.trials[trial_id]
        paths = {record.epoch: record.path for record in trial.checkpoints}
        best = find_best_checkpoint(trial, self._objective)
        before = max((epoch for epoch in paths if epoch < newest), default=None) if runs else None
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
    trials = [trial for trial in trials if trial.status not in (events.COMPLETED, events.STOPPED)]
    journaled = {record.path for trial in trials for record in trial.checkpoints}
    try:
        for trial in trials:
            for name in sorted(_find_leftovers(folder, trial, journaled)):
                folder.remove_file(name)
    except (OSError, UsageError) as error:  # they only take space
        reason = error.strerror if isinstance(error, OSError) else error
        _log.warning("cannot remove what a kill has left: %s", reason)


def _find_leftovers(folder: ExperimentFolder, trial: TrialRecord, journaled: set[str]) -> set[str]:
    """The folders that no journal line names, and partial files in those that stay."""
    leftovers = set()
    epochs = {match.group() for name in journaled if (match := _OF_TUNER.match(f"{name}/"))}
    for name in folder.list_files(f"trials/{trial.trial_id}/checkpoints"):
        if match := _OF_TUNER.match(name):
            epoch = match.group()
            if epoch not in epochs:
                leftovers.add(epoch)
            elif epoch not in journaled and name == f"{epoch}/{PARTIAL_FILE}":
                leftovers.add(name)
    return leftovers
