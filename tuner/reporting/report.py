"""What a report tells of an experiment, in numbers; the page adds the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from statistics import median
from typing import Any

import optuna

from tuner.errors import NoUsableTrialError
from tuner.record.digest import sha256_of
from tuner.record.journal import JOURNAL
from tuner.reporting.comparable import Comparable, comparable
from tuner.reporting.importance import Importance, importances
from tuner.reporting.study import study_of
from tuner.reporting.throughput import Throughput, memory_of, throughput_of
from tuner.results.best import best_json
from tuner.results.confirmation import Confirmation
from tuner.results.confirmations import confirmation_of
from tuner.results.early_stopping import Savings, savings_of
from tuner.results.occupancy import Occupancy, occupancy_of
from tuner.results.results import Results
from tuner.spec.experiment import ExperimentSpec, build_spec

TOP = 10  # trials in the table of the best


class Report:
    """Everything that is told of an experiment, each part worked out once, when it is asked for.

    Raises SpecError for an experiment whose spec this version cannot read.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.spec: ExperimentSpec = build_spec(results.spec, str(results.folder))

    @cached_property
    def study(self) -> optuna.Study:
        return study_of(self.results)

    @cached_property
    def compared(self) -> Comparable:
        return comparable(self.results, self.study)

    @cached_property
    def importances(self) -> list[Importance]:
        return importances(self.compared)

    @cached_property
    def savings(self) -> Savings | None:
        return savings_of(self.spec, self.results.trials.values())

    @cached_property
    def occupancy(self) -> Occupancy:
        return occupancy_of(self.results.history)

    @cached_property
    def throughput(self) -> Throughput | None:
        return throughput_of(self.results.trials.values())

    @cached_property
    def peaks_mib(self) -> dict[str, float]:
        return memory_of(self.results.trials.values())

    @cached_property
    def confirmation(self) -> Confirmation | None:
        return confirmation_of(self.results)

    @cached_property
    def best(self) -> list[dict[str, Any]]:
        """The best trials as `best --json` tells them, at most ten; the confirmed ones first."""
        try:
            return best_json(self.results, top=TOP)
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
        listed = []
        for kind, count in kinds.most_common():
            own = [(error, trial) for error, trial in failed if error.kind == kind]
            first = own[0][1]
            listed.append(
                {
                    "kind": kind,
                    "count": count,
                    "first": {
                        "trial_id": first.trial_id,
                        "after_epoch": first.last_epoch,
                        "message": own[0][0].message,
                    },
                    "trial_ids": [trial.trial_id for _, trial in own],
                }
            )
        return listed

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
        """As plain values: what `report --format json` says."""
        results, occupancy = self.results, self.occupancy
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
            "throughput": self.throughput
            and {"unit": self.throughput.unit, **_spread(self.throughput.rates)},
            "confirmation": self.confirmation and self.confirmation.as_dict(),
            "provenance": self.provenance,
        }


def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as a date and time in UTC, in ISO 8601."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _spread(values: Mapping[str, float]) -> dict[str, float]:
    """Least, median and greatest; empty where there are none."""
    found = values.values()
    return {"least": min(found), "median": median(found), "greatest": max(found)} if found else {}
