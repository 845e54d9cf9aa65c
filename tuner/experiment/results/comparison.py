"""Compares searches of a space by the best value after equal epochs of all trials.

Experiments of a strategy whose specs differ only in the seed are its seeds.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import NoUsableTrialError, UsageError
from tuner.experiment.events import FAILED, RESULT, RUNNING
from tuner.experiment.history import History
from tuner.experiment.results.results import Results, load_results
from tuner.experiment.results.statistics import Mean, compute_differences, compute_mean
from tuner.experiment.trials import Report, TrialRecord
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flatten
from tuner.spec.sections import Objective
from tuner.wording import join_names, summarize_names

_COMPARED = {"trainable", "training", "search", "scheduler", "resources"}
# Others: where two have them
_NOTED_IF_MISSING = ("training.", "search.space.", "scheduler.name")


@dataclass(frozen=True, slots=True)
class Curve:
    """Steps: from `starts[i]` on, the best value is `best[i]`; total: where the search ends."""

    starts: tuple[float, ...]
    best: tuple[float, ...]
    total: float

    def find_best(self, spent: float) -> float | None:
        steps = bisect_right(self.starts, spent)
        return self.best[steps - 1] if steps else None

    def divide(self, unit: float) -> Curve:
        """The same by what is spent in another unit."""
        return Curve(
            tuple(start / unit for start in self.starts), self.best, self.total / unit
        )


@dataclass(frozen=True, slots=True)
class Entrant:
    """One experiment: its best value by epochs of all trials and by seconds of searching."""

    name: str
    spec: ExperimentSpec
    curve: Curve
    by_time: Curve
    trials: int
    seconds: float

    @property
    def best(self) -> float | None:
        return self.curve.best[-1] if self.curve.best else None

    @property
    def epochs(self) -> int:
        return int(self.curve.total)

    def as_dict(self) -> dict[str, Any]:
        steps = zip(self.curve.starts, self.curve.best, strict=True)
        return {
            "name": self.name,
            "seed": self.spec.seed,
            "best": self.best,
            "trials": self.trials,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "steps": {"epochs": [list(step) for step in steps]},
        }


@dataclass(frozen=True, slots=True)
class Side:
    """A strategy and its seeds. label: with an experiment's name if a strategy has several."""

    strategy: str
    entrants: tuple[Entrant, ...]
    label: str

    @property
    def best(self) -> Mean | None:
        return _compute_mean(entrant.best for entrant in self.entrants)

    def compute_mean_best(self, epochs: float) -> Mean | None:
        return _compute_mean(
            entrant.curve.find_best(epochs) for entrant in self.entrants
        )

    def find_best_by_seed(self, epochs: float) -> dict[int, float]:
        """seed -> the best value after so many epochs."""
        pairs = (
            (entrant.spec.seed, entrant.curve.find_best(epochs))
            for entrant in self.entrants
        )
        return {seed: value for seed, value in pairs if value is not None}


class Comparison:
    """Experiments of one objective, by strategy, the best one first.

    experiments: as they were given. budget: epochs that every one with a value has trained. notes:
    other differences. Raises UsageError for fewer than two, repeated or incomparable experiments,
    NoUsableTrialError if none has a value, and SpecError for a spec of another version.
    """

    def __init__(self, experiments: Sequence[Results]) -> None:
        _check(experiments)
        self.experiments = tuple(experiments)
        self.objective = experiments[0].objective
        names = [results.name for results in experiments]
        entrants = [_build_entrant(results, names) for results in experiments]
        usable = [entrant for entrant in entrants if entrant.best is not None]
        if not usable:
            raise NoUsableTrialError("none of the experiments has a usable trial")
        self.budget = min(entrant.epochs for entrant in usable)
        self.sides = tuple(sorted(_build_sides(entrants), key=self._rank))
        self.notes = tuple(_collect_notes(experiments, entrants))

    def compute_difference(self, side: Side) -> Mean | None:
        """A side's values less the first side's, at equal epochs and seeds; None without a shared
        seed. The interval accounts for the choice of the first side as the best.
        """
        first, *others = (side.find_best_by_seed(self.budget) for side in self.sides)
        differences = compute_differences(others, first)
        return differences[self.sides.index(side) - 1]

    def as_dict(self) -> dict[str, Any]:
        return {
            "metric": self.objective.metric,
            "mode": self.objective.mode,
            "budgets": {"epochs": self.budget},
            "strategies": [self._describe_side(side) for side in self.sides],
            "notes": list(self.notes),
        }

    def _describe_side(self, side: Side) -> dict[str, Any]:
        best = side.best
        mean = side.compute_mean_best(self.budget)
        less = self.compute_difference(side) if side is not self.sides[0] else None
        return {
            "strategy": side.strategy,
            "label": side.label,
            "best": best and asdict(best),
            "at": {"epochs": mean and asdict(mean)},
            "difference": less and {**asdict(less), "told_apart": less.is_settled},
            "experiments": [entrant.as_dict() for entrant in side.entrants],
        }

    def _rank(self, side: Side) -> tuple[bool, float]:
        """By the value at equal epochs, else by the best; those without any come last."""
        mean = side.compute_mean_best(self.budget) or side.best
        if mean is None:
            return True, 0.0
        return False, self.objective.compute_loss(mean.mean)


def _build_sides(entrants: Sequence[Entrant]) -> Iterator[Side]:
    """Specs that differ in the seed alone are one side: a mean over others has no meaning."""
    groups: dict[tuple[object, ...], list[Entrant]] = {}
    for entrant in entrants:
        settings = _collect_settings(entrant.spec)
        key = entrant.spec.warm_start, *settings.items()
        groups.setdefault(key, []).append(entrant)
    strategies = [group[0].spec.search.strategy for group in groups.values()]
    for strategy, group in zip(strategies, groups.values(), strict=True):
        label = strategy
        if strategies.count(strategy) > 1:
            names = summarize_names([entrant.name for entrant in group], 1)
            label += f" ({names})"
        yield Side(strategy, tuple(group), label)


def _compute_mean(values: Iterable[float | None]) -> Mean | None:
    present = [value for value in values if value is not None]
    return compute_mean(present) if present else None


def _build_entrant(results: Results, names: Sequence[str]) -> Entrant:
    """Of several experiments of one name in different places each has its folder's path."""
    name = results.name if names.count(results.name) == 1 else results.files.location
    history = results.history
    by_epochs, by_time = find_curves(history, results.objective)
    return Entrant(
        name=name,
        spec=results.spec,
        curve=by_epochs,
        by_time=by_time,
        trials=len(history.trials),
        seconds=history.duration_s,
    )


def _check(experiments: Sequence[Results]) -> None:
    if len(experiments) < 2:
        raise UsageError(
            f"compare needs two experiments or more, got {len(experiments)}"
        )
    folders = [results.folder.resolve() for results in experiments]
    twice = [folder.name for folder in set(folders) if folders.count(folder) > 1]
    if twice:
        raise UsageError(f"compare needs different experiments, got {twice[0]} twice")
    objectives = {results.objective for results in experiments}
    if len(objectives) > 1:
        got = ", ".join(
            f"{each.name} by {each.metric} ({each.mode})" for each in experiments
        )
        raise UsageError(
            f"experiments can be compared by one objective only, got {got}"
        )


def _collect_notes(
    experiments: Sequence[Results], entrants: Sequence[Entrant]
) -> Iterator[str]:
    for results, entrant in zip(experiments, entrants, strict=True):
        if results.status == RUNNING:
            yield f"{entrant.name} is still running"
        if entrant.best is None:
            yield f"{entrant.name} has no usable trial"
        if earlier := entrant.spec.warm_start:
            if not isinstance(earlier, str):
                earlier = join_names(earlier)
            yield (
                f"{entrant.name} began with the trials of {earlier}: it had more to learn from, "
                "which no count of what was spent shows"
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
            yield f"{join_names(names)} have the same strategy and seed, {seed}"
    facts = {entrant.name: _collect_settings(entrant.spec) for entrant in entrants}
    paths = (path for settings in facts.values() for path in settings)
    for path in dict.fromkeys(paths):
        holders: dict[str, list[str]] = {}
        for name, settings in facts.items():
            if path in settings or path.startswith(_NOTED_IF_MISSING):
                text = settings.get(path, "not there")
                holders.setdefault(text, []).append(name)
        if len(holders) > 1 and path != "search.strategy":
            differing = (
                f"{value} in {join_names(names)}" for value, names in holders.items()
            )
            yield f"{path} differs: {'; '.join(differing)}"


def _collect_settings(spec: ExperimentSpec) -> dict[str, str]:
    """dotted path -> text of what should be equal."""
    document = spec.model_dump(
        mode="json",
        include=_COMPARED,
        exclude={"training": {"seed"}},
    )
    values = flatten(document, ".").items()
    return {path: v if isinstance(v, str) else json.dumps(v) for path, v in values}


def find_curves(history: History, objective: Objective) -> tuple[Curve, Curve]:
    """The value of the best so far by the epochs of all trials together, and by seconds.

    Reports count in their order. The epochs of a failed trial and of reports beyond the limits
    count, their values do not. The default config has no claim: strategies are compared by what
    they find.
    """
    # With the epochs since the one before
    reports: list[tuple[TrialRecord, Report, int]] = []
    for trial in history.trials.values():
        before = 0
        for report in trial.results:
            reports.append((trial, report, report.epoch - before))
            before = report.epoch
    reports.sort(key=lambda each: each[1].time)
    replay = History(objective)
    total = 0
    steps: list[tuple[int, float, float]] = []  # epochs, time, best
    for trial, report, trained in reports:
        total += trained
        if trial.status != FAILED:
            replay.apply(
                {"event": RESULT, "trial_id": trial.trial_id, **report._asdict()}
            )
        value = replay.leader.value if replay.leader else None
        has_changed = not steps or value != steps[-1][2]
        if value is not None and has_changed:
            steps.append((total, report.time, value))
    epochs, times, best = tuple(zip(*steps, strict=True)) if steps else ((), (), ())
    last = [report.time for _, report, _ in reports[-1:]]
    moments = [*times, *last]
    seconds = tuple(history.find_searched_s(moments))
    by_epochs = Curve(epochs, best, total)
    by_time = Curve(
        seconds[: len(times)],
        best,
        total=max(seconds, default=0.0),
    )
    return by_epochs, by_time


def compare(
    *experiments: Results | Path | str, storage: Path | str | None = None
) -> Comparison:
    """The comparison of experiments: Results, or names or folders as for `load_results`."""
    return Comparison(
        [
            each if isinstance(each, Results) else load_results(each, storage)
            for each in experiments
        ]
    )
