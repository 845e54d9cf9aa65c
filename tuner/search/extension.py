"""What a resume adds to an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tuner.errors import UsageError
from tuner.experiment import events
from tuner.experiment.changes import apply_changes, find_lengths
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.experiment.reading import read_last_event
from tuner.experiment.results.results import Results
from tuner.experiment.steered import REQUESTED
from tuner.search.replay import list_unfinished
from tuner.spec.by_value import extract_name, format_python_argument, is_by_value
from tuner.spec.code import refuse_elsewhere
from tuner.spec.experiment import build_spec, parse_trainable
from tuner.spec.strategies import SampledSettings


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

    def apply(
        self, document: Mapping[str, Any], files: ExperimentFolder
    ) -> dict[str, Any]:
        """The extended `document` (experiment.json). Raises UsageError and as `apply_changes`."""
        changes = dict(self.changes)
        if self.add_samples:
            samples = changes.get("num_samples", document["spec"].get("num_samples"))
            if not isinstance(samples, int):
                raise UsageError(
                    "--add-samples needs an experiment with a number of samples"
                )
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
            points = list_first_configs(
                cast(SampledSettings, recorded.search), recorded.seed
            )
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
    if (end.get("event"), end.get("status")) != (
        events.EXPERIMENT_ENDED,
        events.COMPLETED,
    ):
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
