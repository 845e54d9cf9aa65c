"""The trials that figures show: all of an experiment, or some, and what is computed from them.

Each trial with a value counts, also one that was stopped early. Values far on the bad side, such as
the loss of a diverged trial, are drawn at a fence, since they would squeeze all others into a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, TypeVar

import numpy as np

from tuner.errors import SpecError
from tuner.experiment.events import STOPPED
from tuner.experiment.results.results import Results
from tuner.experiment.trials import TrialRecord
from tuner.reporting.axes import Axis, build_axes, flatten_config
from tuner.reporting.importance import FEWEST, Importance, estimate_importances
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective
from tuner.spec.space.spaces import list_domains
from tuner.wording import format_amount, format_number

NO_TRIALS = "Nothing to show: no trial that did not fail has a value of the objective."
NO_NAMES = "Nothing to show: all trials have the same config."

_FAR_OUT = 3  # quartile ranges beyond the quartile: Tukey's outer fence

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RungCount:
    """How many trials reached the rung at `epoch`, and how many of them were stopped there."""

    epoch: int
    reached: int
    stopped: int


@dataclass(frozen=True, slots=True)
class ScoredTrial:
    """A trial with a value. config: flat, with the categories of its axes."""

    trial_id: str
    value: float
    config: Mapping[str, Any]

    @property
    def number(self) -> int:
        return int(self.trial_id)


class FigureData:
    """`trials` of an experiment, by default all, by their ids."""

    def __init__(
        self, results: Results, trials: Mapping[str, TrialRecord] | None = None
    ) -> None:
        self.results = results
        self.objective: Objective = results.objective
        self.trials = results.trials if trials is None else trials

    @cached_property
    def fence(self) -> float | None:
        """The value at which worse ones are drawn, or None."""
        return find_fence([value for value, _ in self._scored], self.objective)

    @cached_property
    def outside(self) -> int:
        """The number of trials that are drawn at the fence."""
        return sum(self._is_outside(value) for value, _ in self._scored)

    @cached_property
    def ranked(self) -> list[ScoredTrial]:
        """The trials that have a value and have not failed, best first."""
        ranked = []
        for value, trial in self._scored:
            config = self._configs[trial.trial_id]
            categories = {
                name: axis.find_category(config[name])
                if axis.categories
                else config[name]
                for name, axis in self._all_axes.items()
                if name in config
            }
            at = (
                self.fence
                if self.fence is not None and self._is_outside(value)
                else value
            )
            ranked.append(ScoredTrial(trial.trial_id, float(at), categories))
        return ranked

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The axes of the hyperparameters of which the ranked trials have two values or more."""
        return {
            name: axis
            for name, axis in self._all_axes.items()
            if len(set(map(repr, self.list_values(name)))) > 1
        }

    @cached_property
    def importances(self) -> list[Importance]:
        """The greatest first; [] for fewer than 10 trials."""
        losses = [self.objective.compute_loss(trial.value) for trial in self.ranked]
        return estimate_importances(
            self.axes, [trial.config for trial in self.ranked], losses
        )

    @property
    def names_by_importance(self) -> list[str]:
        """The varying hyperparameters, the most important first if that is known."""
        return [item.name for item in self.importances] or list(self.axes)

    @property
    def stopped(self) -> list[TrialRecord]:
        """The trials that the scheduler stopped, not a user."""
        trials = self.trials.values()
        return [t for t in trials if t.status == STOPPED and t.ended_by is None]

    @cached_property
    def spec(self) -> ExperimentSpec | None:
        """None for a spec that this version cannot read."""
        try:
            return self.results.spec
        except SpecError:
            return None

    @property
    def rungs(self) -> list[RungCount]:
        """The rungs of all brackets, ascending; none without a scheduler."""
        spec = self.spec
        if spec is None or spec.scheduler is None or spec.epochs is None:
            return []
        reached = Counter(trial.last_epoch for trial in self.trials.values())
        stopped = Counter(trial.last_epoch for trial in self.stopped)
        rungs = (ceil(epoch) for epoch in spec.scheduler.rungs() if epoch < spec.epochs)
        return [
            RungCount(
                rung, sum(n for e, n in reached.items() if e >= rung), stopped[rung]
            )
            for rung in dict.fromkeys(rungs)
        ]

    def list_values(self, name: str) -> list[Any]:
        """The values of a hyperparameter, best trial first."""
        return [trial.config[name] for trial in self.ranked if name in trial.config]

    def explain_selection(self, shown: int) -> list[str]:
        """Sentences on the trials that a figure omits or moves to the fence."""
        sentences = explain_selection("trials", len(self.ranked), shown)
        if self.fence is not None and self.outside:
            worse = "above" if self.objective.sign > 0 else "below"
            sentences.append(
                f"{format_amount(self.outside, 'trial')} {worse} {format_number(self.fence)} "
                f"{'is' if self.outside == 1 else 'are'} drawn at that value."
            )
        return sentences

    def explain_lack(self, fewest: int = 1) -> str:
        """Why a figure that needs `fewest` trials and a varying hyperparameter is empty, or ""."""
        count = len(self.ranked)
        if not count:
            return NO_TRIALS
        if not self.axes:
            return NO_NAMES
        if count >= fewest:
            return ""
        are = "is" if count == 1 else "are"
        return f"Nothing to show: it takes {fewest} trials with a value, and there {are} {count}."

    @cached_property
    def _scored(self) -> list[tuple[float, TrialRecord]]:
        return [pair for pair in self.results.ranked if pair[1].trial_id in self.trials]

    @cached_property
    def _configs(self) -> dict[str, dict[str, Any]]:
        return {
            trial_id: flatten_config(trial.config)
            for trial_id, trial in self.trials.items()
        }

    @cached_property
    def _all_axes(self) -> dict[str, Axis]:
        domains = dict(list_domains(self.spec.search.space if self.spec else {}))
        return build_axes(domains, list(self._configs.values()))

    def _is_outside(self, value: float) -> bool:
        return self.fence is not None and self.objective.is_better(self.fence, value)


def explain_too_few(count: int) -> str:
    """Why a figure of `count` trials, those with the hyperparameters in it, is empty; or ""."""
    if count >= FEWEST:
        return ""
    trials = "1 has it" if count == 1 else f"{count} have it"
    return f"Nothing to show: it takes {FEWEST} trials with a value, and {trials}."


def explain_selection(things: str, total: int, shown: int) -> list[str]:
    """The sentence on a selection; none if all are shown."""
    if shown == total:
        return []
    selection = "the best ones, and an even selection of the others"
    return [f"Of {total} {things} {shown} are drawn: {selection}."]


def find_fence(values: Sequence[float], objective: Objective) -> float | None:
    """The value beyond which bad values are outliers, or None without outliers."""
    if len(values) < 4:
        return None
    costs = objective.sign * np.asarray(values, float)
    low, high = np.quantile(costs, [0.25, 0.75])
    fence = high + _FAR_OUT * (high - low)
    return objective.sign * float(fence) if costs.max() > fence else None


def select_leading(items: Sequence[_T], most: int) -> list[_T]:
    """At most `most` of `items`, the best one first: the first half whole, the others evenly.

    >>> select_leading(range(12), 6)
    [0, 1, 2, 3, 7, 11]
    """
    if len(items) <= most:
        return list(items)
    return [*items[: most // 2], *select_evenly(items[most // 2 :], most - most // 2)]


def select_evenly(items: Sequence[_T], most: int) -> list[_T]:
    """At most `most` of `items`, at equal distances, the first and the last among them.

    >>> select_evenly(range(11), 3)
    [0, 5, 10]
    """
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / max(most - 1, 1)
    return [items[round(i * step)] for i in range(most)]
