"""The numbers of an experiment's report; the page adds the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from statistics import median
from typing import Any

import optuna

from tuner.errors import NoUsableTrialError
from tuner.record.digest import sha256_of
from tuner.record.history import TrialRecord
from tuner.record.journal import JOURNAL
from tuner.reporting.optuna_study import study_of
from tuner.reporting.ranked_trials import Importance, RankedTrials, importances, ranked_trials
from tuner.results.best import best_json
from tuner.results.confirmation import Confirmation
from tuner.results.confirmations import confirmation_of
from tuner.results.early_stopping import Savings, savings_of
from tuner.results.occupancy import Occupancy, occupancy_of
from tuner.results.results import Results
from tuner.spec.experiment import ExperimentSpec, build_spec

NO_SCHEDULER = "Nothing to show: the search had no scheduler, so every trial ran its full length."
NO_STOP = "Nothing to show: the scheduler stopped no trial."

_TOP = 10  # trials in the table of the best


@dataclass(frozen=True, slots=True)
class Throughput:
    """rates: trial_id -> the median over its epochs, in `unit`; at least one."""

    rates: Mapping[str, float]
    unit: str


class Report:
    """All the numbers of an experiment, each worked out once, when it is first read.

    Raises SpecError for an experiment whose spec this version cannot read.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.spec: ExperimentSpec = build_spec(results.spec, str(results.folder))

    @cached_property
    def study(self) -> optuna.Study:
        return study_of(self.results)

    @cached_property
    def ranked(self) -> RankedTrials:
        return ranked_trials(self.results, self.study)

    @cached_property
    def importances(self) -> list[Importance]:
        return importances(self.ranked)

    @property
    def names_by_importance(self) -> list[str]:
        """The varying hyperparameters, the most important first as far as that is known."""
        return [one.name for one in self.importances] or self.ranked.varying

    @cached_property
    def savings(self) -> Savings | None:
        return savings_of(self.spec, self.results.trials.values())

    @property
    def why_no_stop(self) -> str:
        """Why there is nothing to say of early stopping, where no trial was stopped."""
        return NO_SCHEDULER if self.savings is None else NO_STOP

    @cached_property
    def occupancy(self) -> Occupancy:
        return occupancy_of(self.results.history)

    @cached_property
    def throughput(self) -> Throughput | None:
        return throughput_of(self.results.trials.values())

    @cached_property
    def peaks_mib(self) -> dict[str, float]:
        """trial_id -> its peak memory over all epochs; only of the trials that reported it."""
        reported = {i: trial.values("peak_memory_mib") for i, trial in self.results.trials.items()}
        return {i: max(value for _, value in values) for i, values in reported.items() if values}

    @cached_property
    def confirmation(self) -> Confirmation | None:
        return confirmation_of(self.results)

    @cached_property
    def best(self) -> list[dict[str, Any]]:
        """The best trials in the shape of `best --json`, at most ten; the confirmed ones first."""
        try:
            return best_json(self.results, top=_TOP)
        except NoUsableTrialError:
            return []

    @cached_property
    def why_no_best(self) -> str:
        """Why there is no best trial; empty where there is one."""
        try:
            self.results.get_best_trial()
        except NoUsableTrialError as error:
            return str(error)
        return ""

    @cached_property
    def failures(self) -> list[dict[str, Any]]:
        """Of each kind, the most frequent first: how many, the first one's message, all ids."""
        failed = [(t.error, t) for t in self.results.trials.values() if t.error is not None]
        kinds = Counter(error.kind for error, _ in failed)
        failures = []
        for kind, count in kinds.most_common():
            own = [(error, trial) for error, trial in failed if error.kind == kind]
            error, first = own[0]
            failures.append(
                {
                    "kind": kind,
                    "count": count,
                    "first": {
                        "trial_id": first.trial_id,
                        "after_epoch": first.last_epoch,
                        "message": error.message,
                    },
                    "trial_ids": [trial.trial_id for _, trial in own],
                }
            )
        return failures

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """experiment.json whole, the search's times (UTC), and what the report was made from."""
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
