"""Searches of the same space side by side: what each strategy reached for the same spending.

Experiments of one strategy whose specs differ only in the seed are its seeds. Spending is counted
in trials, in epochs of all trials together, and in seconds; strategies are ranked by the best value
after equal epochs, which depends neither on the machine nor on early stopping.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from operator import itemgetter
from pathlib import Path
from typing import Any

from tuner.errors import NoUsableTrialError, UsageError
from tuner.experiment.events import FAILED, RUNNING
from tuner.experiment.history import History
from tuner.experiment.results.results import Results, load_results
from tuner.experiment.results.statistics import Mean, differences_from_best, mean_of
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flat
from tuner.spec.sections import Objective
from tuner.wording import joined, some_of

AXES = ("trials", "epochs", "seconds")
RANKED_BY = "epochs"

_COMPARED = {"trainable", "training", "search", "scheduler", "resources"}
_NOTED_IF_MISSING = ("training.", "search.space.", "scheduler.name")  # others: where two have them


@dataclass(frozen=True, slots=True)
class Curve:
    """Steps: from `spent[i]` on, the best value is `best[i]`; total: all that the search spent."""

    spent: tuple[float, ...]
    best: tuple[float, ...]
    total: float

    def at(self, spent: float) -> float | None:
        """The best value after so much; None where there was none yet."""
        steps = bisect_right(self.spent, spent)
        return self.best[steps - 1] if steps else None


@dataclass(frozen=True, slots=True)
class Entrant:
    """One experiment: its name, spec, and its best so far by each of `AXES`."""

    name: str
    spec: ExperimentSpec
    curves: dict[str, Curve]

    @property
    def best(self) -> float | None:
        """Its best value, or None."""
        values = self.curves["trials"].best
        return values[-1] if values else None

    def as_dict(self) -> dict[str, Any]:
        """As plain values; `steps` of a curve are [spent, best value from there on]."""
        curves = self.curves.items()
        return {
            "name": self.name,
            "seed": self.spec.seed,
            "best": self.best,
            **{axis: curve.total for axis, curve in curves},
            "steps": {a: [list(p) for p in zip(c.spent, c.best, strict=True)] for a, c in curves},
        }


@dataclass(frozen=True, slots=True)
class Side:
    """A strategy with its experiments, whose specs agree but for the seed.

    label: the strategy's name, with the first experiment's where the strategy has other sides, too.
    """

    strategy: str
    entrants: tuple[Entrant, ...]
    label: str

    @property
    def best(self) -> Mean | None:
        """The mean over the seeds of each one's best value; None where none has one."""
        return _mean(entrant.best for entrant in self.entrants)

    def at(self, axis: str, spent: float) -> Mean | None:
        """The mean over the seeds of the best value after so much of `axis`."""
        return _mean(entrant.curves[axis].at(spent) for entrant in self.entrants)

    def spent(self, axis: str) -> float:
        """What its experiments spent, on average."""
        return sum(e.curves[axis].total for e in self.entrants) / len(self.entrants)

    def by_seed(self, axis: str, spent: float) -> dict[int, float]:
        """seed -> the best value after so much."""
        pairs = ((e.spec.seed, e.curves[axis].at(spent)) for e in self.entrants)
        return {seed: value for seed, value in pairs if value is not None}


class Comparison:
    """Experiments of one objective, by strategy, the best one first.

    budgets: of each axis, the most that every experiment with a value has spent. notes: what else
    differs between the experiments, in words. Raises UsageError for fewer than two experiments, one
    named twice, or differing objectives; NoUsableTrialError where none has a value; SpecError for
    an experiment whose spec this version cannot read.
    """

    def __init__(self, experiments: Sequence[Results]) -> None:
        _check(experiments)
        first = experiments[0]
        self.objective = first.objective
        names = [results.name for results in experiments]
        entrants = [_entrant(results, names) for results in experiments]
        usable = [entrant for entrant in entrants if entrant.best is not None]
        if not usable:
            raise NoUsableTrialError("none of the experiments has a usable trial")
        self.budgets = {axis: min(e.curves[axis].total for e in usable) for axis in AXES}
        self.sides = tuple(sorted(_sides(entrants), key=self._rank))
        self.notes = tuple(_notes(experiments, entrants))

    def difference(self, side: Side) -> Mean | None:
        """A side's values less the first side's, at equal epochs and seeds; None without a shared
        seed. The interval accounts for the choice of the first side as the best.
        """
        spent = self.budgets[RANKED_BY]
        first, *others = (side.by_seed(RANKED_BY, spent) for side in self.sides)
        return differences_from_best(others, first)[self.sides.index(side) - 1]

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `compare --json` says."""
        return {
            "metric": self.objective.metric,
            "mode": self.objective.mode,
            "budgets": self.budgets,
            "strategies": [self._side(side) for side in self.sides],
            "notes": list(self.notes),
        }

    def _side(self, side: Side) -> dict[str, Any]:
        best, less = side.best, self.difference(side) if side is not self.sides[0] else None
        means = {axis: side.at(axis, budget) for axis, budget in self.budgets.items()}
        return {
            "strategy": side.strategy,
            "label": side.label,
            "best": best and best.as_dict(),
            "at": {axis: mean and mean.as_dict() for axis, mean in means.items()},
            "difference": less and {**less.as_dict(), "told_apart": less.is_settled},
            "experiments": [entrant.as_dict() for entrant in side.entrants],
        }

    def _rank(self, side: Side) -> tuple[bool, float]:
        """By the value at equal epochs, else by the best; those without any come last."""
        mean = side.at(RANKED_BY, self.budgets[RANKED_BY]) or side.best
        return mean is None, self.objective.key(mean.mean) if mean else 0.0


def _sides(entrants: Sequence[Entrant]) -> Iterator[Side]:
    """Those whose specs agree but for the seed are one side: of others no mean says anything."""
    groups: dict[tuple[object, ...], list[Entrant]] = {}
    for entrant in entrants:
        key = entrant.spec.warm_start, *_facts(entrant.spec).items()
        groups.setdefault(key, []).append(entrant)
    strategies = [group[0].spec.search.strategy for group in groups.values()]
    for strategy, group in zip(strategies, groups.values(), strict=True):
        names = some_of([entrant.name for entrant in group], 1)
        label = strategy if strategies.count(strategy) == 1 else f"{strategy} ({names})"
        yield Side(strategy, tuple(group), label)


def _mean(values: Iterable[float | None]) -> Mean | None:
    present = [value for value in values if value is not None]
    return mean_of(present) if present else None


def _entrant(results: Results, names: Sequence[str]) -> Entrant:
    """Of several experiments of one name in different places each has its folder's path."""
    name = results.name if names.count(results.name) == 1 else results.files.location
    return Entrant(name, results.spec, curves_of(results.history, results.objective))


def _check(experiments: Sequence[Results]) -> None:
    if len(experiments) < 2:
        raise UsageError(f"compare needs two experiments or more, got {len(experiments)}")
    folders = [results.folder.resolve() for results in experiments]
    if twice := [folder.name for folder in set(folders) if folders.count(folder) > 1]:
        raise UsageError(f"compare needs different experiments, got {twice[0]} twice")
    if len({results.objective for results in experiments}) > 1:
        got = ", ".join(f"{each.name} by {each.metric} ({each.mode})" for each in experiments)
        raise UsageError(f"experiments can be compared by one objective only, got {got}")


def _notes(experiments: Sequence[Results], entrants: Sequence[Entrant]) -> Iterator[str]:
    for results, entrant in zip(experiments, entrants, strict=True):
        if results.status == RUNNING:
            yield f"{entrant.name} is still running"
        if entrant.best is None:
            yield f"{entrant.name} has no usable trial"
        if entrant.spec.warm_start:
            yield (
                f"{entrant.name} began with the trials of {entrant.spec.warm_start}: it had more "
                "to learn from, which no count of what was spent shows"
            )
        if results.labels.tags:
            yield f"{entrant.name} is tagged {' '.join(results.labels.tags)}"
        if results.labels.note:
            yield f"{entrant.name}: {results.labels.note}"
    by_seed: dict[tuple[str, int], list[str]] = {}
    for entrant in entrants:
        key = entrant.spec.search.strategy, entrant.spec.seed
        by_seed.setdefault(key, []).append(entrant.name)
    for (_, seed), names in by_seed.items():
        if len(names) > 1:
            yield f"{joined(names)} have the same strategy and seed, {seed}"
    facts = {entrant.name: _facts(entrant.spec) for entrant in entrants}
    for path in dict.fromkeys(path for known in facts.values() for path in known):
        holders: dict[str, list[str]] = {}
        for name, known in facts.items():
            if path in known or path.startswith(_NOTED_IF_MISSING):
                holders.setdefault(known.get(path, "not there"), []).append(name)
        if len(holders) > 1 and path != "search.strategy":
            differing = (f"{value} in {joined(names)}" for value, names in holders.items())
            yield f"{path} differs: {'; '.join(differing)}"


def _facts(spec: ExperimentSpec) -> dict[str, str]:
    """dotted path -> text of what should be equal."""
    document = spec.model_dump(mode="json", include=_COMPARED, exclude={"training": {"seed"}})
    values = flat(document, ".").items()
    return {path: v if isinstance(v, str) else json.dumps(v) for path, v in values}


def curves_of(history: History, objective: Objective) -> dict[str, Curve]:
    """The best so far of a search by each of `AXES`.

    trials: in the order of their ends, each with its best value. epochs: of all trials together, as
    reported. seconds: in which a driver ran, without the gaps between a kill and its resume. A
    failed trial costs what it took and brings nothing.
    """
    trials = sorted(history.trials.values(), key=_end)
    ends = [(float(n), _best_of(trial)) for n, trial in enumerate(trials, start=1)]
    epochs, seconds, spent = [], [], 0
    for time, trained, value in sorted(_reports(trials, objective.metric), key=itemgetter(0)):
        spent += trained
        epochs.append((float(spent), value))
        elapsed = fsum(max(0.0, min(run.ended, time) - run.started) for run in history.runs)
        seconds.append((elapsed, value))
    return {
        "trials": _curve(ends, len(trials), objective),
        "epochs": _curve(epochs, spent, objective),
        "seconds": _curve(seconds, history.duration_s, objective),
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


def _best_of(trial: TrialRecord) -> float | None:
    return trial.best.value if trial.best and trial.status != FAILED else None


def _end(trial: TrialRecord) -> tuple[float, int]:
    return trial.runs[-1].ended if trial.runs else trial.started, int(trial.trial_id)


def compare(*experiments: Results | Path | str, storage: Path | str | None = None) -> Comparison:
    """The comparison of two or more experiments: Results, or names or folders of some.

    Names are looked up in `storage`, as `load_results` does it. Raises as that does, and UsageError
    for experiments that cannot be compared.
    """
    return Comparison(
        [each if isinstance(each, Results) else load_results(each, storage) for each in experiments]
    )
