"""The best value that a search had come to, against what it had spent by then. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from operator import itemgetter

from tuner.experiment.events import FAILED
from tuner.experiment.history import History
from tuner.experiment.results.selection import score_of
from tuner.experiment.trials import TrialRecord
from tuner.spec.sections import Objective

AXES = ("trials", "epochs", "seconds")


@dataclass(frozen=True, slots=True)
class Curve:
    """Steps: from `spent[i]` on, the best value is `best[i]`; total: all that the search spent."""

    spent: tuple[float, ...]
    best: tuple[float, ...]
    total: float

    def at(self, spent: float) -> float | None:
        """The best value after so much; None where there was none yet."""
        place = bisect_right(self.spent, spent)
        return self.best[place - 1] if place else None


def curves_of(history: History, objective: Objective) -> dict[str, Curve]:
    """The best so far of a search by each of `AXES`.

    trials: in the order of their ends, each with its best value. epochs: of all trials together, as
    reported. seconds: in which a driver ran, without the gaps between a kill and its resume. A
    failed trial costs what it took and brings nothing.
    """
    trials = sorted(history.trials.values(), key=_end)
    ends = [(float(n), _value(t, objective)) for n, t in enumerate(trials, start=1)]
    epochs, seconds, spent = [], [], 0
    for time, trained, value in sorted(_reports(trials, objective.metric), key=itemgetter(0)):
        spent += trained
        epochs.append((float(spent), value))
        seconds.append((_elapsed(history, time), value))
    return {
        "trials": _curve(ends, len(trials), objective),
        "epochs": _curve(epochs, spent, objective),
        "seconds": _curve(seconds, fsum(run.duration_s for run in history.runs), objective),
    }


def _curve(
    points: Iterable[tuple[float, float | None]], total: float, objective: Objective
) -> Curve:
    spent: list[float] = []
    best: list[float] = []
    for at, value in points:
        if value is not None and objective.is_better(value, best[-1] if best else None):
            spent.append(at)
            best.append(value)
    return Curve(tuple(spent), tuple(best), total)


def _reports(
    trials: Iterable[TrialRecord], metric: str
) -> Iterable[tuple[float, int, float | None]]:
    """(time, epochs since the report before, value) of every report."""
    for trial in trials:
        before = 0
        for report in trial.results:
            value = None if trial.status == FAILED else report.metrics.get(metric)
            yield report.time, report.epoch - before, value
            before = report.epoch


def _value(trial: TrialRecord, objective: Objective) -> float | None:
    return None if trial.status == FAILED else score_of(trial, objective)


def _end(trial: TrialRecord) -> tuple[float, int]:
    last = trial.runs[-1].ended if trial.runs else trial.started
    return trial.ended if trial.ended is not None else last, int(trial.trial_id)


def _elapsed(history: History, time: float) -> float:
    """Seconds that a driver had run at `time`."""
    return fsum(max(0.0, min(run.ended, time) - run.started) for run in history.runs)
