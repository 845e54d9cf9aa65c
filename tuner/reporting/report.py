"""The numbers of an experiment's report: its best trials, importances, failures and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.experiment.files import JOURNAL, compute_sha256
from tuner.experiment.results.accuracy import (
    Accuracy,
    build_test_accuracy,
    describe_test,
)
from tuner.experiment.results.confirmation import (
    describe_best,
    find_confirmation,
    find_refit,
)
from tuner.experiment.results.listing import count_planned_trials
from tuner.experiment.results.measured_tests import read_best_test
from tuner.experiment.results.results import Results
from tuner.experiment.results.split_details import compute_macro_recall
from tuner.reporting.advice import advise, describe_findings
from tuner.reporting.advice.finding import Finding
from tuner.reporting.advice.record import compute_best_accuracy
from tuner.reporting.figures.data import FigureData
from tuner.spec.experiment import ExperimentSpec
from tuner.wording import (
    clean_text,
    format_amount,
    format_duration,
    format_mean,
    format_number,
    list_counts,
)

_TOP = 10  # trials in the table of the best


class Report:
    """The numbers of an experiment.

    spec: raises SpecError if this version cannot read it. data: what its figures show. best: at
    most ten trials in the shape of `best --json`, confirmed ones first; if empty, why_no_best says
    why.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.data = FigureData(results)
        self.confirmation = find_confirmation(results)
        self.refit = find_refit(results)  # whose model `test` is of, if there is one
        self.test = read_best_test(self.refit or results)
        self.best: list[dict[str, Any]] = []
        self.why_no_best = ""
        try:
            self.best = describe_best(results, top=_TOP)
        except NoUsableTrialError as error:
            self.why_no_best = str(error)

    @property
    def spec(self) -> ExperimentSpec:
        return self.results.spec

    @property
    def accuracies(self) -> list[Accuracy]:
        """The known accuracies of the best trial, on the validation and the test split."""
        accuracies = (
            compute_best_accuracy(self.results),
            build_test_accuracy(self.test),
        )
        return [accuracy for accuracy in accuracies if accuracy]

    @property
    def failures(self) -> list[dict[str, Any]]:
        failures = []
        for cause, failed in self.results.failures.items():
            first = failed[0]
            failures.append(
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
        return failures

    @property
    def findings(self) -> list[Finding]:
        return advise(self.results)

    @property
    def provenance(self) -> dict[str, Any]:
        """The document of the experiment, times (UTC), and the source of the report."""
        history = self.results.history
        folder = self.results.folder
        return {
            "experiment": self.results.document,
            "started": format_utc(history.started),
            "ended": format_utc(history.ended),
            "resumed": history.resumed,
            "journal_sha256": compute_sha256(folder / JOURNAL),
            "report_made": format_utc(datetime.now(UTC).timestamp()),
            "report_made_by": {name: version(name) for name in ("tuner", "plotly")},
        }

    @property
    def trained_epochs(self) -> int:
        return sum(trial.last_epoch for trial in self.results.trials.values())

    @property
    def tiles(self) -> Iterator[tuple[str, str, str]]:
        """(label, value, note) of each number that a page begins with, the best value first."""
        results = self.results
        accuracies = self.accuracies
        if self.best:
            best = self.best[0]
            searched = self.describe_searched(self.best[0])
            note = f"trial {best['trial_id']}, epoch {searched['epoch']}"
            if confirmed := best.get("confirmed"):
                mean = format_confirmed_mean(best)
                note += f"; confirmed mean {mean} of {confirmed['seeds']} seeds"
            note += "".join(
                f"; {a.note}" for a in accuracies if a.metric == results.metric
            )
            value = format_number(searched["metrics"][results.metric])
            yield f"best {clean_text(results.metric)}", value, note
        else:
            yield f"best {clean_text(results.metric)}", "none", "no usable trial yet"
        measured = "refit" if self.refit else "best"
        for accuracy in accuracies:
            if accuracy.metric != results.metric:
                whose = measured if accuracy.metric.startswith("test_") else "best"
                yield (
                    f"{accuracy.metric} of the {whose}",
                    format_number(accuracy.value),
                    accuracy.note,
                )
        if (macro := compute_macro_recall(self.test)) is not None:
            note = "test split: the mean over the classes, which are uneven"
            yield f"macro recall of the {measured}", format_number(macro), note
        total = results.history.count_trials(count_planned_trials(results)) or 0
        begun = len(results.trials)
        trials = f"{begun} of {total}" if total > begun else str(begun)
        yield (
            "trials",
            trials,
            ", ".join(list_counts(results.counts)) or "none has started",
        )
        resumed = results.history.resumed
        again = (
            f", resumed {'once' if resumed == 1 else f'{resumed} times'}"
            if resumed
            else ""
        )
        yield (
            "time",
            format_duration(results.history.duration_s),
            f"of searching{again}",
        )
        if expected := results.expected_gain:
            gain = expected["per_hour"]
            note = f"of another hour; the search ends below {format_number(expected['utility'])}"
            yield (
                "expected gain",
                "not known yet" if gain is None else f"{gain:.2g}",
                note,
            )
        stopped = format_amount(len(self.data.stopped), "trial")
        yield "epochs trained", str(self.trained_epochs), f"{stopped} stopped early"

    def describe_searched(self, best: Mapping[str, Any]) -> dict[str, Any]:
        """What the search itself, not a confirmation, knows of one of `best`."""
        return self.results.describe_best(self.results.trial(best["trial_id"]))

    def as_dict(self) -> dict[str, Any]:
        """As plain values: the document of `report --format json`."""
        results = self.results
        return {
            **results.show(),
            "test": describe_test(self.test),
            "best": self.best[0] if self.best else None,
            "metric": results.metric,
            "mode": results.mode,
            "strategy": self.spec.search.strategy,
            "trained_epochs": self.trained_epochs,
            "wall_s": results.history.duration_s,
            "top": self.best,
            "importances": [asdict(item) for item in self.data.importances],
            "rungs": [asdict(rung) for rung in self.data.rungs],
            "failures": self.failures,
            **describe_findings(self.findings),
            "confirmation": self.confirmation and self.confirmation.as_dict(),
            "provenance": self.provenance,
        }


def format_confirmed_mean(best: Mapping[str, Any]) -> str:
    """The mean over the seeds of a confirmed one of `Report.best`, or ""."""
    confirmed = best.get("confirmed")
    return (
        format_mean(confirmed["mean"], confirmed["standard_error"]) if confirmed else ""
    )


def format_utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as a date and time in UTC, in ISO 8601."""
    return (
        None
        if seconds is None
        else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    )
