"""A study's trials as figures and importances compare them: by one value each, of any age.

Optuna's figures leave out pruned trials, which under ASHA are most of them. Here each trial that
has reported counts, by its best value. What lies far out on the bad side, as the loss of a diverged
trial, is drawn at a fence, since one such value would squeeze all others into a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import quantiles
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from tuner.reporting.figures.figure import leading, text
from tuner.reporting.study import quiet_optuna
from tuner.results.results import Results
from tuner.results.selection import ranked

_FAR_OUT = 3  # quartile ranges beyond the quartile: Tukey's outer fence


@dataclass(frozen=True, slots=True)
class Comparable:
    """The usable trials, best first, all as completed ones; names and texts are safe in figures.

    fence: the value that worse ones are drawn at; None where there is none. outside: how many are.
    """

    trials: tuple[FrozenTrial, ...]
    metric: str
    mode: str
    fence: float | None = None
    outside: int = 0

    @property
    def names(self) -> list[str]:
        """The hyperparameters, in the order in which trials first have them."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.params))

    @property
    def varying(self) -> list[str]:
        """Those of them that have at least two values."""
        return [n for n in self.names if len({repr(v) for v in self.values_of(n)}) > 1]

    def values_of(self, name: str) -> list[Any]:
        """The values of a hyperparameter, best trial first; of those trials that have it."""
        return [trial.params[name] for trial in self.trials if name in trial.params]

    def study(self, most: int | None = None) -> optuna.Study:
        """A Study of the trials; of at most `most`: the leading half whole, others evenly."""
        kept = list(self.trials) if most is None else leading(self.trials, most)
        return study_with(sorted(kept, key=lambda trial: trial.number), self.mode)


def comparable(results: Results, study: optuna.Study) -> Comparable:
    """The trials of an experiment, and of its study, that can be compared: not failed, valued."""
    frozen = {t.user_attrs["trial_id"]: t for t in study.get_trials(deepcopy=False)}
    scored = ranked(results.trials.values(), results.metric, mode=results.mode, scope="best")
    values = [value for value, _ in scored]
    fence = fence_of(values, mode=results.mode)
    worst = min if results.mode == "min" else max
    safe: dict[str, BaseDistribution] = {}
    trials = []
    for value, trial in scored:
        shown = value if fence is None else worst(value, fence)
        trials.append(_completed(frozen[trial.trial_id], shown, safe))
    outside = 0 if fence is None else sum(worst(v, fence) != v for v in values)
    return Comparable(tuple(trials), results.metric, results.mode, fence, outside)


def fence_of(values: Sequence[float], *, mode: str) -> float | None:
    """The value beyond which one lies far out on the bad side; None where none of them does."""
    if len(values) < 4:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    if mode == "min":
        fence = high + _FAR_OUT * (high - low)
        return fence if max(values) > fence else None
    fence = low - _FAR_OUT * (high - low)
    return fence if min(values) < fence else None


def study_with(trials: Sequence[FrozenTrial], mode: str) -> optuna.Study:
    """A Study in memory of these trials, renumbered from 0."""
    with quiet_optuna():
        study = optuna.create_study(direction="minimize" if mode == "min" else "maximize")
        study.add_trials(trials)
    return study


def _completed(trial: FrozenTrial, value: float, safe: dict[str, BaseDistribution]) -> FrozenTrial:
    for name, distribution in trial.distributions.items():
        if name not in safe:
            safe[name] = _safe(distribution)
    return FrozenTrial(
        number=trial.number,
        trial_id=trial.number,
        state=TrialState.COMPLETE,
        value=float(value),
        params={text(name): _safe_value(v) for name, v in trial.params.items()},
        distributions={text(name): safe[name] for name in trial.distributions},
        user_attrs=_attributes(trial.user_attrs),
        system_attrs={},
        intermediate_values=trial.intermediate_values,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete or datetime.now(),
    )


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: attributes[name] for name in ("trial_id", "status")}


def _safe(distribution: BaseDistribution) -> BaseDistribution:
    if isinstance(distribution, CategoricalDistribution):
        return CategoricalDistribution([_safe_value(choice) for choice in distribution.choices])
    return distribution


def _safe_value(value: Any) -> Any:
    return text(value) if isinstance(value, str) else value
