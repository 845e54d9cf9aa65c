"""Tree-structured Parzen estimators, on hyperopt's spaces and with its adaptive widths."""

# N observations, M candidates, D columns

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tuner.search.searchers.data import Data
from tuner.search.searchers.hyperopt_space import from_hyperopt
from tuner.search.searchers.model import ModelSearch
from tuner.search.searchers.parzen import (
    Parzen,
    adaptive_widths,
    likelier,
    neighbour_widths,
    scott_widths,
)
from tuner.space.domains import Value
from tuner.space.encoding import Array

_MOST_GOOD = 25  # as in hyperopt
_LEAST_WEIGHT = 1e-3
_WIDENING = 2.0  # of the kernels that candidates are drawn from, once trials are stopped early


class HyperOptSearch(ModelSearch):
    """Suggests configs that are likelier among the good trials than among the others.

    Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011), with kernels over all
    columns at once (Falkner et al., BOHB, 2018) and good trials weighted by how much better they
    are than the others (Song et al., "A General Recipe for Likelihood-free Bayesian Optimization",
    2022; Watanabe, "Tree-Structured Parzen Estimator", 2023, compares these choices). The others'
    kernels are as wide as hyperopt makes them, a good trial's as its nearest good neighbours tell.
    hyperopt's own `tpe.suggest` takes every hyperparameter for itself, and finds less.

    Once trials are stopped early, what is known of most is where they are expected to come to, too
    little to tell widths from: these then follow from the number of trials, and candidates are
    drawn from wider kernels, as in BOHB.

    Losses are compared at equal epochs; trials that failed, or run and have reported nothing, count
    among the others. `space` may be hyperopt's own, of `hp` calls; points_to_evaluate then name
    what a choice chooses, not its number. gamma: the share of trials that are the good ones, of
    which there are at most 25. candidates: draws that are compared. startup: trials that must have
    reported before the model is asked.
    """

    def __init__(
        self, *args: Any, gamma: float = 0.1, candidates: int = 64, startup: int = 10, **kwargs: Any
    ) -> None:
        self._gamma = gamma
        self._candidates = candidates
        super().__init__(*args, startup=startup, **kwargs)

    def _propose(self, data: Data, number: int, rng: np.random.Generator) -> Iterator[Array]:
        order = np.argsort(data.loss_N, kind="stable")
        count = min(math.ceil(self._gamma * len(order)), _MOST_GOOD)
        good_ND, rest_ND = data.u_ND[order[:count]], data.u_ND[order[count:]]
        other_ND = np.concatenate([rest_ND, data.failed_ND, data.pending_PD])
        weight_N = _improvements(data.loss_N[order], count)
        if data.stops_early:
            good_widths, other_widths, widening = scott_widths, scott_widths, _WIDENING
        else:
            good_widths, other_widths, widening = neighbour_widths, adaptive_widths, 1.0
        good = Parzen(good_ND, good_widths(good_ND), self._space, weight_N)
        other = Parzen(other_ND, other_widths(other_ND), self._space)
        yield from likelier(good, other, self._candidates, rng, widening=widening)

    def _translated(self, space: Mapping[str, Any]) -> Mapping[str, Value]:
        return from_hyperopt(space)


def _improvements(loss_N: Array, count: int) -> Array:
    """How far below the others' best each of the `count` least losses is, 1 on average.

    loss_N: ascending. All weigh the same where none is below.
    """
    below = loss_N[min(count, len(loss_N) - 1)] - loss_N[:count]
    most = below.max(initial=0.0)
    if not most > 0 or not math.isfinite(most):
        return np.ones(count)
    weight = below / most
    return np.asarray(np.maximum(weight / weight.mean(), _LEAST_WEIGHT))
