"""The numbers of an experiment's report."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import ceil
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.experiment.events import STOPPED
from tuner.experiment.files import JOURNAL, sha256_of
from tuner.experiment.results.best import best_json, measured_test
from tuner.experiment.results.confirmation import confirmation_of
from tuner.experiment.results.results import Results
from tuner.experiment.results.statistics import Accuracy, measured_accuracy, with_interval
from tuner.experiment.trials import TrialRecord
from tuner.reporting.advice import advice_json, advise
from tuner.reporting.advice.finding import Finding
from tuner.reporting.advice.record import SearchRecord
from tuner.reporting.optuna_study import frozen_trials
from tuner.reporting.ranked_trials import importances, ranked_trials
from tuner.spec.experiment import ExperimentSpec

_TOP = 10  # trials in the table of the best


@dataclass(frozen=True, slots=True)
class RungCount:
    """How many trials reached the rung at `epoch`, and how many of them were stopped there."""

    epoch: int
    reached: int
    stopped: int


class Report:
    """The numbers of an experiment; raises SpecError for a spec that this version cannot read.

    frozen: trial_id -> Optuna's trial. importances: the greatest first. best: at most ten trials in
    the shape of `best --json`, confirmed ones first; if empty, why_no_best says why.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.spec: ExperimentSpec = results.spec
        self.frozen = {trial.user_attrs["trial_id"]: trial for trial in frozen_trials(results)}
        self.ranked = ranked_trials(results, self.frozen)
        self.importances = importances(self.ranked)
        self.confirmation = confirmation_of(results)
        self.test = measured_test(results)
        self.best: list[dict[str, Any]] = []
        self.why_no_best = ""
        try:
            self.best = best_json(results, top=_TOP)
        except NoUsableTrialError as error:
            self.why_no_best = str(error)

    @property
    def accuracies(self) -> list[Accuracy]:
        """The known accuracies of the best trial, on the validation and the test split."""
        leaders = self.results.top(1)
        validated = self.results.accuracy(self.results.best_json(leaders[0])) if leaders else None
        return [each for each in (validated, measured_accuracy(self.test)) if each]

    @property
    def names_by_importance(self) -> list[str]:
        """The varying hyperparameters, the most important first if that is known."""
        return [item.name for item in self.importances] or self.ranked.varying

    @property
    def stopped(self) -> list[TrialRecord]:
        """The trials that the scheduler stopped, not a user."""
        trials = self.results.trials.values()
        return [t for t in trials if t.status == STOPPED and t.ended_by is None]

    @property
    def rungs(self) -> list[RungCount]:
        """The rungs of all brackets, ascending; none without a scheduler."""
        scheduler, length = self.spec.scheduler, self.spec.epochs
        if scheduler is None or length is None:
            return []
        reached = Counter(trial.last_epoch for trial in self.results.trials.values())
        stopped = Counter(trial.last_epoch for trial in self.stopped)
        epochs = dict.fromkeys(ceil(epoch) for epoch in scheduler.rungs() if epoch < length)
        return [
            RungCount(rung, sum(n for e, n in reached.items() if e >= rung), stopped[rung])
            for rung in epochs
        ]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The causes of failures, most frequent first."""
        return [
            {
                "kind": cause.kind,
                "count": len(failed),
                "first": {
                    "trial_id": failed[0].trial_id,
                    "after_epoch": failed[0].last_epoch,
                    "message": failed[0].error and failed[0].error.message,
                },
                "trial_ids": [trial.trial_id for trial in failed],
            }
            for cause, failed in self.results.failures.items()
        ]

    @property
    def findings(self) -> list[Finding]:
        """What `tuner advise` says."""
        return advise(SearchRecord.of(self.results))

    @property
    def provenance(self) -> dict[str, Any]:
        """The document of the experiment, times (UTC), and the source of the report."""
        history, folder = self.results.history, self.results.folder
        return {
            "experiment": self.results.document,
            "started": utc(history.started),
            "ended": utc(history.ended),
            "resumed": history.resumed,
            "journal_sha256": sha256_of(folder / JOURNAL),
            "report_made": utc(datetime.now(UTC).timestamp()),
            "report_made_by": {name: version(name) for name in ("tuner", "optuna", "plotly")},
        }

    @property
    def trained_epochs(self) -> int:
        """The epochs of all trials."""
        return sum(trial.last_epoch for trial in self.results.trials.values())

    def as_dict(self) -> dict[str, Any]:
        """As plain values: the document of `report --format json`."""
        results = self.results
        return {
            **results.show(),
            "test": with_interval(self.test),
            "best": self.best[0] if self.best else None,
            "metric": results.metric,
            "mode": results.mode,
            "strategy": self.spec.search.strategy,
            "trained_epochs": self.trained_epochs,
            "wall_s": results.history.duration_s,
            "top": self.best,
            "importances": [asdict(item) for item in self.importances],
            "rungs": [asdict(rung) for rung in self.rungs],
            "failures": self.failures,
            **advice_json(self.findings),
            "confirmation": self.confirmation and self.confirmation.as_dict(),
            "provenance": self.provenance,
        }


def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as a date and time in UTC, in ISO 8601."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
