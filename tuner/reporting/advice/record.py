"""What advice goes by: the trials of a search as points of the unit cube with their costs."""

# N trials, D domains

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.experiment.events import FAILED
from tuner.experiment.history import History
from tuner.experiment.results.accuracy import VALIDATION, Accuracy
from tuner.experiment.results.confirmation import (
    Confirmation,
    find_confirmation,
    find_refit,
)
from tuner.experiment.results.measured_tests import read_best_test
from tuner.experiment.results.results import Results
from tuner.experiment.trials import OF_CONFIGS, TrialRecord
from tuner.reporting.commands import format_experiment_name
from tuner.spec.declaration import load_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flatten
from tuner.spec.sections import Objective
from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Normal
from tuner.spec.space.encoding import Array, Column, Encoding
from tuner.spec.space.spaces import merge_config

_LARGEST = 1e100  # value of the objective
_FAR_OUT = 3  # quartile ranges beyond the quartile: Tukey's outer fence

Mask = NDArray[np.bool_]


def compute_best_accuracy(results: Results) -> Accuracy | None:
    """The accuracy of the best trial on the validation split, if there is one."""
    bests = (results.describe_best(trial) for trial in results.top(1))
    return next(map(results.compute_accuracy, bests), None)


@dataclass(frozen=True)
class SearchRecord:
    """A search.

    name: for commands, as a word of a shell; the folder if it is not in the default storage.
    validation: the `images` of that split, if known. tested: the trials whose test split was
    measured. confirmation: of its leaders. accuracy: of the best trial. test: what was measured of
    the model that is handed over, on the test split and of its images.
    """

    name: str
    spec: ExperimentSpec
    history: History
    validation: Mapping[str, Any] | None = None
    tested: tuple[str, ...] = ()
    confirmation: Confirmation | None = None
    accuracy: Accuracy | None = None
    test: Mapping[str, Any] | None = None

    @classmethod
    def build(cls, results: Results) -> SearchRecord:
        """The record of an experiment. Raises SpecError for a spec that cannot be read."""
        measured = sorted(results.folder.glob("trials/*/test.json"))
        return cls(
            format_experiment_name(results.folder),
            results.spec,
            results.history,
            results.document.get(VALIDATION),
            tuple(path.parent.name for path in measured),
            find_confirmation(results),
            compute_best_accuracy(results),
            read_best_test(find_refit(results) or results),
        )

    @property
    def objective(self) -> Objective:
        """The objective."""
        return self.spec.objective

    @property
    def has_own_images(self) -> bool:
        """Whether it trains the classifier that ships on images of the user's own."""
        return self.spec.ships and ":" in str(self.spec.training.get("dataset"))

    @cached_property
    def trials(self) -> tuple[TrialRecord, ...]:
        """The trials whose outcome says something of their configs.

        They have a finite value, or failed by NaN or for lack of memory.
        """
        return tuple(
            trial
            for trial in self.history.trials.values()
            if (trial.error.kind in OF_CONFIGS if trial.error else trial.best)
        )

    @cached_property
    def cost_N(self) -> Array:
        """Each trial's best value, the less the better; inf for a failed trial."""
        best = [None if trial.status == FAILED else trial.best for trial in self.trials]
        return np.array(
            [
                np.inf if each is None else self.compute_cost(each.estimate)
                for each in best
            ]
        )

    @cached_property
    def order_N(self) -> NDArray[np.int64]:
        """The numbers of the trials, best first."""
        return np.argsort(self.cost_N, kind="stable")

    @cached_property
    def diverged_N(self) -> Mask:
        """Whether a trial failed, is far worse than most, or ended worse than it began.

        The last of these is not asked of means over folds.
        """
        finite = self.cost_N[np.isfinite(self.cost_N)]
        if len(finite) < 4:
            return ~np.isfinite(self.cost_N)
        low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
        far_out_N = np.asarray(self.cost_N > high + _FAR_OUT * (high - low))
        if self.has_folds:
            return far_out_N
        ends = [[c for _, c in self.list_costs(t)] or [np.inf] for t in self.trials]
        rises_N = np.array([cost[-1] > max(cost[0], middle) for cost in ends])
        return np.asarray(far_out_N | rises_N)

    @property
    def has_folds(self) -> bool:
        """Whether a trial's reports are means over folds so far, which are no curve of a training.

        The later ones may be worse only because a fold is harder.
        """
        return bool(self.spec.training.get("folds"))

    @cached_property
    def encoding(self) -> Encoding:
        """The domains of the search space."""
        return Encoding(self.spec.search.space)

    @cached_property
    def u_ND(self) -> Array:
        """The trials in the unit cube; NaN where a trial lacks a hyperparameter."""
        u_ND = np.full((len(self.trials), len(self.encoding)), np.nan)
        for u_D, trial in zip(u_ND, self.trials, strict=True):
            try:
                u_D[:] = self.encoding.encode(trial.config)
            except FaultsError:  # a user's own trial, or one of a wider space
                continue
        return u_ND

    @cached_property
    def searched(self) -> list[tuple[int, Column]]:
        """(number, column) of each domain outside of branches that the trials vary."""
        return [
            (d, column)
            for d, column in enumerate(self.encoding.columns)
            if column.parent < 0
            and not isinstance(column.domain, Normal)
            and len(np.unique(self.u_ND[~np.isnan(self.u_ND[:, d]), d])) > 1
        ]

    def format_run_command(self, *settings: str) -> str:
        """The command that repeats the search with other settings, each KEY=VALUE."""
        return f"tuner run --like {self.name} {shlex.join(settings)}"

    def can_train(self, values: Mapping[str, Any]) -> bool:
        """Whether the Learner that ships trains the best config with these values in it.

        Of other trainables nothing is known without their code, so that they accept all.
        """
        if not self.spec.ships or not self.trials:
            return True
        best = merge_config(
            self.spec.constants, self.trials[int(self.order_N[0])].config
        )
        check = load_declaration(self.spec.trainable).check
        known = {fault.key for fault in check(best, self.spec)}
        return all(
            fault.key in known for fault in check(merge_config(best, values), self.spec)
        )

    def list_values(self, column: Column) -> list[Any]:
        """Each trial's value of a hyperparameter; None where it has none."""
        return [flatten(trial.config, ".").get(column.path) for trial in self.trials]

    def compute_cost(self, value: float) -> float:
        """A value of the objective, the less the better, within what can be subtracted."""
        return float(self.objective.sign * min(max(value, -_LARGEST), _LARGEST))

    def list_costs(self, trial: TrialRecord) -> list[tuple[int, float]]:
        """(epoch, cost) of each report of a trial."""
        return [
            (e, self.compute_cost(v))
            for e, v in trial.list_values(self.objective.metric)
        ]

    def list_leaders(self, share: float, fewest: int) -> list[int]:
        """The numbers of the best `share` of the trials, at least `fewest`, of the finite ones."""
        count = max(ceil(share * len(self.trials)), fewest)
        return [int(n) for n in self.order_N[:count] if np.isfinite(self.cost_N[n])]
