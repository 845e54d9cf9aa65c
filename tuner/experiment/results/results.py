"""A read-only view of an experiment's folder. Runs no code from it."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.deprecation import rename_attributes
from tuner.errors import CheckpointError, NoUsableTrialError, UsageError
from tuner.experiment.changes import describe_changes
from tuner.experiment.events import COUNTED, FAILED, RUNNING, format_status
from tuner.experiment.files import Checkpoint, resolve_path
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import DEFAULT_ID, History, fold, pause_collector
from tuner.experiment.results import selection
from tuner.experiment.results.accuracy import (
    VALIDATION,
    Accuracy,
    build_accuracy,
    count_candidates,
    estimate_interval,
)
from tuner.experiment.results.described import Described
from tuner.experiment.results.selection import compute_points, find_front
from tuner.experiment.steered import apply_controls
from tuner.experiment.storage import find_experiment
from tuner.experiment.trials import (
    TrialError,
    TrialRecord,
    estimate_gain,
    group_failures,
)
from tuner.spec.sections import Objective, infer_mode
from tuner.wording import format_amount

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)

_DIGITS = 5  # of a trial's id


class Results(Described):
    """An experiment as its folder shows it when constructed: threads may share it.

    history: all that its journal says.

    metric, mode None: the objective's, or the mode that another metric's name implies. What has not
    ended is "running" under a live driver, else "interrupted". Raises UsageError for a folder that
    is no experiment, JournalError for a damaged journal.
    """

    if not TYPE_CHECKING:
        __getattr__ = rename_attributes(
            accuracy="compute_accuracy",
            best_json="describe_best",
            checkpoint_at="locate_checkpoint",
            why_unusable="describe_unusable",
        )

    def __init__(self, folder: Path | str) -> None:
        # Asked first: a driver that ends meanwhile has then journaled its end
        is_driven = ExperimentFolder(folder).is_driven
        super().__init__(folder)
        images = self.document.get(VALIDATION)
        history = fold(self.files.read_events(), self.objective, images=images)
        self._set_history(history, is_driven=is_driven)

    def _set_history(self, history: History, *, is_driven: bool) -> None:
        """Show what a journal says, of which nothing changes from now on."""
        if not is_driven:
            history.interrupt()
        self.history = history
        self.document = apply_controls(self.document, history.steered.answers)

    def __repr__(self) -> str:
        trials = format_amount(sum(self.counts.values()), "trial")
        return f"<Results of {self.name}: {self.status}, {trials}>"

    @property
    def status(self) -> str:
        """running, completed, interrupted or failed."""
        return self.history.status

    @property
    def ended_by(self) -> str | None:
        """Why it ended early: "time_budget", "target", "patience", "utility", "finish",
        "same_failure".
        """
        return self.history.ended_by

    @property
    def expected_gain(self) -> dict[str, float | None] | None:
        """The improvement that another hour is expected to bring (None before 20 ended trials), and
        the least that the search goes on for; None without `stop.utility`.
        """
        utility = (self.document["spec"].get("stop") or {}).get("utility")
        if not utility:
            return None
        gain = estimate_gain(self.trials.values(), self.objective)
        return {"per_hour": gain, "utility": utility}

    @property
    def status_text(self) -> str:
        """How it stands, in words: its status, "paused", or "out of time"."""
        return (
            "paused" if self._is_paused else format_status(self.status, self.ended_by)
        )

    @property
    def _is_paused(self) -> bool:
        return self.status == RUNNING and self.history.steered.paused is not None

    @property
    def trials(self) -> dict[str, TrialRecord]:
        """Every trial by its id, in order of the ids."""
        return self.history.trials

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are completed, stopped, failed, running and interrupted."""
        return {status: self.history.counts[status] for status in COUNTED}

    @property
    def _healthy(self) -> list[TrialRecord]:
        """The trials that have not failed."""
        return [trial for trial in self.trials.values() if trial.status != FAILED]

    @property
    def beyond(self) -> int:
        """How many trials have not failed and have no report that keeps the limits."""
        return sum(trial.is_beyond(self.objective) for trial in self._healthy)

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What resumes have changed of its spec, as `changes.describe_changes` gives it."""
        return describe_changes(self.document, self.trials.values(), self.name)

    @cached_property
    def metrics(self) -> list[str]:
        """The names of all metrics that any trial reported, sorted."""
        reports = (report for trial in self.trials.values() for report in trial.results)
        return sorted({name for report in reports for name in report.metrics})

    @cached_property
    def ranked(self) -> list[tuple[float, TrialRecord]]:
        """(what it is worth, trial) of every usable trial by the objective, best first."""
        with pause_collector():
            scored = [
                (trial.best.estimate, trial) for trial in self._healthy if trial.best
            ]
            ranked = selection.sort_best_first(scored, self.objective)
        if self.history.best is self.history.leader:
            return ranked
        # The leader does not beat the default config
        return sorted(ranked, key=lambda pair: pair[1].trial_id != DEFAULT_ID)

    @cached_property
    def front(self) -> list[TrialRecord]:
        """The usable trials of which none is better in every goal, the best trial first."""
        points = compute_points(self._healthy, self.objective)
        return [trial for _, trial in find_front(points)]

    @property
    def failures(self) -> dict[TrialError, list[TrialRecord]]:
        """The failed trials by the cause, the most frequent one first."""
        return group_failures(self.trials.values())

    @property
    def why_failed(self) -> str:
        """The first failure of the most frequent cause, to follow a sentence; "" if none failed."""
        for first, *_ in self.failures.values():
            if first.error:
                return f". Trial {first.trial_id}: {first.error.message}"
        return ""

    def trial(self, trial_id: str) -> TrialRecord:
        """The trial of this id, leading zeros optional; UsageError if there is none."""
        if trial := self.trials.get(trial_id) or self.trials.get(
            trial_id.zfill(_DIGITS)
        ):
            return trial
        ids = list(self.trials)
        has = f"its trials are {ids[0]} to {ids[-1]}" if ids else "it has no trials"
        raise UsageError(f"{self.name} has no trial {trial_id!r}; {has}")

    def log_path(self, trial: TrialRecord) -> Path:
        """The file with the trial's own output; it may be missing."""
        name = f"trials/{trial.trial_id}/log.txt"
        with suppress(OSError):  # as good as missing
            self.files.fetch(name)
        return self.folder / name

    def top(
        self,
        k: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "best",
    ) -> list[TrialRecord]:
        """The `k` best usable trials (None: all), best first; see `selection`.

        Raises UsageError for an unknown metric, mode or scope.
        """
        objective = self._resolve_objective(metric, mode)
        if objective == self.objective and scope == "best":
            scored = self.ranked
        else:
            scored = selection.rank_trials(self.trials.values(), objective, scope=scope)
        return [trial for _, trial in scored[:k]]

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "best"
    ) -> TrialRecord:
        """The best usable trial: not failed, with a finite value.

        Of equals it is the one whose other objectives are better, or that has the lower id. scope:
        of `selection.SCOPES`. Raises as `top`, and NoUsableTrialError if there is none.
        """
        best = self.top(1, metric, mode, scope)
        if not best:
            why = self.describe_unusable(metric or self.metric)
            raise NoUsableTrialError(
                f"{self.name} has no usable trial: {why}{self.why_failed}"
            )
        return best[0]

    def best_epoch(
        self,
        trial: TrialRecord | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
    ) -> int:
        """The best epoch of `trial` (None: the best one), by which its model is named.

        Raises NoUsableTrialError without a value.
        """
        objective = self._resolve_objective(metric, mode)
        trial = trial or self.get_best_trial(objective.metric, objective.mode)
        return self._find_best_epoch(trial, objective)[0]

    def _find_best_epoch(
        self, trial: TrialRecord, objective: Objective
    ) -> tuple[int, float]:
        """(best epoch, what it is worth) of a trial. Raises NoUsableTrialError without a value."""
        curve = selection.find_curve(trial, objective)
        if curve.epoch is None or curve.estimate is None:
            raise NoUsableTrialError(
                f"trial {trial.trial_id} never reported {objective.metric!r}"
            )
        return curve.epoch, objective.compute_loss(curve.estimate)

    def best_checkpoint(self, trial: TrialRecord | None = None) -> Checkpoint:
        """The checkpoint of `trial` (None: the best one) at the best epoch that has one.

        A warning is logged where it is not the trial's best epoch.

        Raises NoUsableTrialError if it kept none, CheckpointError if it is missing or altered.
        """
        trial = trial or self.get_best_trial()
        record = selection.find_best_checkpoint(trial, self.objective)
        if record is None:
            raise NoUsableTrialError(
                f"trial {trial.trial_id} of {self.name} kept no checkpoint: a function passes one "
                "to tune.report, a class writes one in save_checkpoint, and a script one to "
                "$TUNER_CHECKPOINT_DIR before it reports"
            )
        best = selection.find_best_report(trial, self.objective)
        if best is not None and best.epoch != record.epoch:
            message = (
                "trial %s kept no checkpoint of its best epoch %s: epoch %s is taken"
            )
            _log.warning(message, trial.trial_id, best.epoch, record.epoch)
        return self.files.fetch_checkpoint(record, trial.trial_id)

    def describe_best(
        self,
        trial: TrialRecord | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
    ) -> dict[str, Any]:
        """What `best --json` shows of `trial` (None: the best one); `checkpoint` may be None."""
        trial = trial or self.get_best_trial(metric, mode)
        objective = self._resolve_objective(metric, mode)
        epoch, worth = self._find_best_epoch(trial, objective)
        report = trial.find_report(epoch)
        images = self.document.get(VALIDATION)
        low, high = estimate_interval(objective.metric, worth, images) or (None, None)
        return {
            "trial_id": trial.trial_id,
            "config": trial.config,
            "epoch": epoch,
            "metrics": report.metrics if report else {},
            "checkpoint": self.locate_checkpoint(trial, epoch),
            "shown": "searched",
            "estimate": {"value": worth, "low": low, "high": high},
        }

    def compute_accuracy(self, best: Mapping[str, Any]) -> Accuracy | None:
        """The validation accuracy of a trial in the shape of `describe_best`; None if unknown.

        It is compared with that of the default config, if another is the best.
        """
        images = self.document.get(VALIDATION)
        among = count_candidates(self.counts)
        accuracy = build_accuracy("val_accuracy", best["metrics"], images, among=among)
        first = self.history.default
        if accuracy is None or first is None or first.config == best["config"]:
            return accuracy
        default = build_accuracy(
            "val_accuracy", self.describe_best(first)["metrics"], images
        )
        return replace(accuracy, default=default)

    def show(self) -> dict[str, Any]:
        """What `show --json` shows: name, status, counts, best or None.

        If known, also `validation` (the accuracy's interval and baseline), `ended_by`,
        `expected_gain`, `controls`, `paused` and `changes`.
        """
        leaders = self.top(1)
        best = self.describe_best(leaders[0]) if leaders else None
        accuracy = self.compute_accuracy(best) if best else None
        further = {
            "ended_by": self.ended_by,
            VALIDATION: accuracy and accuracy.as_dict(),
            "expected_gain": self.expected_gain,
            "controls": [answer.as_dict() for answer in self.history.steered.answers],
            "paused": self._is_paused,
            "changes": self.changes,
        }
        shown = {
            "name": self.name,
            "status": self.status,
            "counts": self.counts,
            "best": best,
        }
        return shown | {name: value for name, value in further.items() if value}

    def dataframe(self, *, reports: bool = False) -> pd.DataFrame:
        """One row for each trial, or with `reports` for each report.

        Columns of trials: trial_id, status, seed, config/NAME (nested names joined by /),
        last/METRIC, best/METRIC, best_epoch, epochs, started (UTC), duration_s, error (its kind)
        and message. A trial without a report that counts, by the limits and `from_epoch`, has no
        values of best/. Of reports: trial_id, epoch, time (UTC) and every metric.
        """
        from tuner.experiment.results.tables import (
            build_reports_frame,
            build_trials_frame,
        )

        if reports:
            return build_reports_frame(self.trials.values())
        return build_trials_frame(self.trials.values(), self.objective, seed=self.seed)

    def export(
        self,
        to: Path | str,
        *,
        trial_id: str | None = None,
        formats: Collection[str] = (),
    ) -> Path:
        """Write a trial's best checkpoint (None: the best trial's) to the folder `to`; see
        `tuner.export_model`.
        """
        from tuner.spec.declaration import load_default_declaration

        return load_default_declaration().export(
            self, Path(to), trial_id=trial_id, formats=formats
        )

    def _resolve_objective(self, metric: str | None, mode: str | None) -> Objective:
        """The objective asked for, with the experiment's own where they are None."""
        if mode is not None:
            selection.check("mode", mode, selection.MODES)
        if metric is None or metric == self.metric:
            return self.objective.model_copy(update={"mode": mode or self.mode})
        if self.metrics:
            selection.check("metric", metric, self.metrics)
        goals = {goal.metric: goal.mode for goal in self.objective.others}
        mode = mode or goals.get(metric) or infer_mode(metric)
        if mode is None:
            raise UsageError(
                f"mode: say min or max for {metric!r}, which is not the objective"
            )
        changes = {"metric": metric, "mode": mode, "others": ()}
        return self.objective.model_copy(update=changes)

    def describe_unusable(self, metric: str) -> str:
        """Why no trial has a value of `metric` that counts: how many failed, and how."""
        if not self.trials:
            return "no trial has started"
        failed = Counter(
            trial.error.kind for trial in self.trials.values() if trial.error
        )
        reasons = [f"{count} failed ({kind})" for kind, count in failed.most_common()]
        if beyond := self.beyond:
            reasons.append(
                f"{beyond} beyond the limits {' and '.join(self.objective.limits)}"
            )
        if silent := len(self.trials) - failed.total() - beyond:
            names = ", ".join(self.metrics) or "none"
            since = (
                f" from epoch {first} on"
                if (first := self.objective.from_epoch)
                else ""
            )
            which = f"{silent} without a value of {metric!r}{since}"
            reasons.append(f"{which}; metrics reported: {names}")
        return ", ".join(reasons)

    def locate_checkpoint(self, trial: TrialRecord, epoch: int) -> str | None:
        """Where the trial's checkpoint of an epoch lies; None if it is not kept."""
        kept = (
            record for record in reversed(trial.checkpoints) if record.epoch == epoch
        )
        record = next(kept, None)
        if record is None:
            return None
        try:
            path = resolve_path(self.folder, record.path)
        except CheckpointError:
            return None
        is_there = self.files.is_remote or os.path.exists(path)
        return self.files.locate(record.path) if is_there else None


def load_results(name: str | Path, storage: Path | str | None = None) -> Results:
    """The results of the experiment `name` under `storage`, or in the folder `name`.

    storage: $TUNER_STORAGE, else ./results. Raises UsageError, with similar names, if there is
    none.
    """
    return Results(find_experiment(name, storage))
