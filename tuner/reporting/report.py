"""The numbers of an experiment's report: its best trials, importances, failures and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.experiment.files import JOURNAL, sha256_of
from tuner.experiment.results.confirmation import (
    best_json,
    confirmation_of,
    measured_test,
    refit_of,
)
from tuner.experiment.results.listing import trials_of
from tuner.experiment.results.results import Results
from tuner.experiment.results.statistics import (
    Accuracy,
    macro_recall,
    measured_accuracy,
    with_interval,
)
from tuner.reporting.advice import advice_json, advise
from tuner.reporting.advice.finding import Finding
from tuner.reporting.figures.data import FigureData
from tuner.spec.experiment import ExperimentSpec
from tuner.wording import amount_of, duration, number, printable, with_error

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
        self.confirmation = confirmation_of(results)
        self.refit = refit_of(results)  # whose model `test` is of, if there is one
        self.test = measured_test(self.refit or results)
        self.best: list[dict[str, Any]] = []
        self.why_no_best = ""
        try:
            self.best = best_json(results, top=_TOP)
        except NoUsableTrialError as error:
            self.why_no_best = str(error)

    @property
    def spec(self) -> ExperimentSpec:
        return self.results.spec

    @property
    def accuracies(self) -> list[Accuracy]:
        """The known accuracies of the best trial, on the validation and the test split."""
        leaders = self.results.top(1)
        validated = self.results.accuracy(self.results.best_json(leaders[0])) if leaders else None
        return [each for each in (validated, measured_accuracy(self.test)) if each]

    @property
    def failures(self) -> list[dict[str, Any]]:
        failures = []
        for cause, failed in self.results.failures.items():
            trial, ids = failed[0], [trial.trial_id for trial in failed]
            message = trial.error and trial.error.message
            first = {"trial_id": ids[0], "after_epoch": trial.last_epoch, "message": message}
            each = {"kind": cause.kind, "count": len(failed), "first": first, "trial_ids": ids}
            failures.append(each)
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
            "started": utc(history.started),
            "ended": utc(history.ended),
            "resumed": history.resumed,
            "journal_sha256": sha256_of(folder / JOURNAL),
            "report_made": utc(datetime.now(UTC).timestamp()),
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
            searched = self.searched(self.best[0])
            note = f"trial {best['trial_id']}, epoch {searched['epoch']}"
            if confirmed := best.get("confirmed"):
                note += f"; confirmed mean {mean_text(best)} of {confirmed['seeds']} seeds"
            note += "".join(f"; {a.note}" for a in accuracies if a.metric == results.metric)
            value = number(searched["metrics"][results.metric])
            yield f"best {printable(results.metric)}", value, note
        else:
            yield f"best {printable(results.metric)}", "none", "no usable trial yet"
        measured = "refit" if self.refit else "best"
        for accuracy in accuracies:
            if accuracy.metric != results.metric:
                whose = measured if accuracy.metric.startswith("test_") else "best"
                yield f"{accuracy.metric} of the {whose}", number(accuracy.value), accuracy.note
        if (macro := macro_recall(self.test)) is not None:
            note = "test split: the mean over the classes, which are uneven"
            yield f"macro recall of the {measured}", number(macro), note
        ended = [f"{count} {status}" for status, count in results.counts.items() if count]
        total = results.history.total(trials_of(results)) or 0
        begun = len(results.trials)
        trials = f"{begun} of {total}" if total > begun else str(begun)
        yield "trials", trials, ", ".join(ended) or "none has started"
        resumed = results.history.resumed
        again = f", resumed {'once' if resumed == 1 else f'{resumed} times'}" if resumed else ""
        yield "time", duration(results.history.duration_s), f"of searching{again}"
        if expected := results.expected_gain:
            gain = expected["per_hour"]
            note = f"of another hour; the search ends below {number(expected['utility'])}"
            yield "expected gain", "not known yet" if gain is None else f"{gain:.2g}", note
        stopped = amount_of(len(self.data.stopped), "trial")
        yield "epochs trained", str(self.trained_epochs), f"{stopped} stopped early"

    def searched(self, best: Mapping[str, Any]) -> dict[str, Any]:
        """What the search itself, not a confirmation, knows of one of `best`."""
        return self.results.best_json(self.results.trial(best["trial_id"]))

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
            "importances": [asdict(item) for item in self.data.importances],
            "rungs": [asdict(rung) for rung in self.data.rungs],
            "failures": self.failures,
            **advice_json(self.findings),
            "confirmation": self.confirmation and self.confirmation.as_dict(),
            "provenance": self.provenance,
        }


def mean_text(best: Mapping[str, Any]) -> str:
    """The mean over the seeds of a confirmed one of `Report.best`, or ""."""
    confirmed = best.get("confirmed")
    return with_error(confirmed["mean"], confirmed["standard_error"]) if confirmed else ""


def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as a date and time in UTC, in ISO 8601."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
