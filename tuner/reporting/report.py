"""The numbers of an experiment's report; the page adds the figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.experiment.checkpoints import sha256_of
from tuner.experiment.files import JOURNAL
from tuner.experiment.results.baseline import Accuracy, measured_accuracy, with_interval
from tuner.experiment.results.best import best_json
from tuner.experiment.results.confirmation import confirmation_of
from tuner.experiment.results.early_stopping import savings_of
from tuner.experiment.results.occupancy import occupancy_of
from tuner.experiment.results.results import Results
from tuner.experiment.results.test_record import known_test
from tuner.experiment.trials import TrialRecord
from tuner.reporting.optuna_study import frozen_trials
from tuner.reporting.ranked_trials import importances, ranked_trials
from tuner.spec.experiment import ExperimentSpec

NO_SCHEDULER = "Nothing to show: the search had no scheduler, so every trial ran its full length."
NO_RUNGS = "Nothing to show: the search had no scheduler; stop.patience_epochs ended trials."
NO_STOP = "Nothing to show: the scheduler stopped no trial."

_TOP = 10  # trials in the table of the best


@dataclass(frozen=True, slots=True)
class Throughput:
    """rates: trial_id -> the median over its epochs, in `unit`; at least one."""

    rates: Mapping[str, float]
    unit: str


class Report:
    """All the numbers of an experiment; raises SpecError for a spec that this version cannot read.

    frozen: trial_id -> the trial as Optuna's. importances: the greatest first. best: in the shape
    of `best --json`, at most ten, the confirmed ones first; empty where there is none, and
    why_no_best says why. peaks_mib: trial_id -> its peak memory over all epochs, only of the trials
    that reported it.
    """

    def __init__(self, results: Results) -> None:
        trials = results.trials
        self.results = results
        self.spec: ExperimentSpec = results.spec
        self.frozen = {trial.user_attrs["trial_id"]: trial for trial in frozen_trials(results)}
        self.ranked = ranked_trials(results, self.frozen)
        self.importances = importances(self.ranked)
        self.savings = savings_of(self.spec, trials.values())
        self.occupancy = occupancy_of(results.history)
        self.throughput = throughput_of(trials.values())
        reported = {i: [v for _, v in t.values("peak_memory_mib")] for i, t in trials.items()}
        self.peaks_mib = {i: max(values) for i, values in reported.items() if values}
        self.confirmation = confirmation_of(results)
        self.test = known_test(results)
        self.best: list[dict[str, Any]] = []
        self.why_no_best = ""
        try:
            self.best = best_json(results, top=_TOP)
        except NoUsableTrialError as error:
            self.why_no_best = str(error)

    @property
    def accuracies(self) -> list[Accuracy]:
        """Those of the search's best trial on the validation and the test split, if known."""
        leaders = self.results.top(1)
        validated = self.results.accuracy(self.results.best_json(leaders[0])) if leaders else None
        return [each for each in (validated, measured_accuracy(self.test)) if each]

    @property
    def names_by_importance(self) -> list[str]:
        """The varying hyperparameters, the most important first as far as that is known."""
        return [one.name for one in self.importances] or self.ranked.varying

    @property
    def why_no_stop(self) -> str:
        """Why there is nothing to say of early stopping, where no trial was stopped."""
        if self.savings is None and self.spec.stop.patience_epochs:
            return NO_RUNGS
        return NO_SCHEDULER if self.savings is None else NO_STOP

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Of each cause, the most frequent first: how many, the first one's message, all ids."""
        told = []
        for cause, failed in self.results.failures.items():
            first = failed[0]
            told.append(
                {
                    "kind": cause.kind,
                    "count": len(failed),
                    "first": {
                        "trial_id": first.trial_id,
                        "after_epoch": first.last_epoch,
                        "message": first.error and first.error.message,
                    },
                    "trial_ids": [trial.trial_id for trial in failed],
                }
            )
        return told

    @property
    def provenance(self) -> dict[str, Any]:
        """experiment.json as controls made it, times (UTC), and what the report is made from."""
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
        """Those of all trials."""
        return sum(trial.last_epoch for trial in self.results.trials.values())

    def as_dict(self) -> dict[str, Any]:
        """As plain values: the document of `report --format json`."""
        results, occupancy, throughput = self.results, self.occupancy, self.throughput
        return {
            **results.show(),
            "test": with_interval(self.test),
            "best": self.best[0] if self.best else None,
            "metric": results.metric,
            "mode": results.mode,
            "strategy": self.spec.search.strategy,
            "trained_epochs": self.trained_epochs,
            "wall_s": occupancy.wall_s,
            "top": self.best,
            "importances": [asdict(one) for one in self.importances],
            "scheduler": self.savings.as_dict() if self.savings else None,
            "slots": {
                "slots": occupancy.slots,
                "busy_s": occupancy.busy_s,
                "idle_s": occupancy.idle_s,
                "busy_share": occupancy.busy_share,
            },
            "failures": self.failures,
            "peak_memory_mib": _spread(self.peaks_mib),
            "throughput": throughput and {"unit": throughput.unit, **_spread(throughput.rates)},
            "confirmation": self.confirmation and self.confirmation.as_dict(),
            "provenance": self.provenance,
        }


def throughput_of(trials: Iterable[TrialRecord]) -> Throughput | None:
    """Images a second where trials report that, else epochs a minute; None without any epoch."""
    trials = list(trials)
    reported = {t.trial_id: [v for _, v in t.values("images_per_s")] for t in trials}
    rates = {trial_id: median(values) for trial_id, values in reported.items() if values}
    if rates:
        return Throughput(rates, "images a second")
    ran = (t for t in trials if t.last_epoch and t.duration_s)
    paces = {t.trial_id: t.last_epoch / t.duration_s * 60 for t in ran}
    return Throughput(paces, "epochs a minute") if paces else None


def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as a date and time in UTC, in ISO 8601."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _spread(values: Mapping[str, float]) -> dict[str, float]:
    """Least, median and greatest; empty where there are none."""
    if not values:
        return {}
    numbers = values.values()
    return {"least": min(numbers), "median": median(numbers), "greatest": max(numbers)}
