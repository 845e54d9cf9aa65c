"""The package bayesian-optimization as a model, rebuilt for each suggestion."""

# N trials, D columns, F features

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuner.search.searchers._observations import ModelInput
from tuner.search.searchers._process_inputs import (
    Features,
    limit_blas,
    normalize_losses,
)
from tuner.spec.space.encoding import Array, Encoding

if TYPE_CHECKING:
    from bayes_opt import BayesianOptimization

_ROUNDS = 4  # of suggestions, which may all be forbidden or tried
_MOST = 400  # trials that the process is fitted to: the best and the latest
_STARTS = 3  # of the library's local search


class LibraryGP:
    """Proposes the library's suggestions, with its defaults except the local search's starts.

    It gets `Features` and negated `targets`; failed trials count as the worst, pending ones as the
    mean.
    """

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """The library's suggestion; each further one as if those before had been bad."""
        if len(encoding) == 0:
            return
        features = Features(encoding)
        optimizer = _build_optimizer(features, int(rng.integers(2**31)))
        worst = _register(optimizer, data, features)
        for _ in range(_ROUNDS):
            with limit_blas():
                suggested = optimizer.suggest()
            x_F = np.array([suggested[name] for name in optimizer.space.keys])
            yield features.decode_point(x_F)
            optimizer.register(x_F, worst)


def _build_optimizer(features: Features, seed: int) -> BayesianOptimization:
    from bayes_opt import BayesianOptimization
    from bayes_opt.acquisition import UpperConfidenceBound

    class FewStarts(UpperConfidenceBound):
        """The library's default with 3 starts instead of 10: a third of the time."""

        def suggest(self, *args: Any, **kwargs: Any) -> NDArray[np.floating[Any]]:
            return super().suggest(*args, **{**kwargs, "n_smart": _STARTS})

    bounds = {str(f): (0.0, float(most)) for f, most in enumerate(features.largest_F)}
    return BayesianOptimization(
        None,
        bounds,
        acquisition_function=FewStarts(),
        random_state=seed,
        verbose=0,
        allow_duplicate_points=True,
    )


def _register(
    optimizer: BayesianOptimization, data: ModelInput, features: Features
) -> float:
    """Register the trials; returns the value of the worst."""
    order = np.argsort(data.loss_N, kind="stable")
    rows = np.union1d(order[: _MOST // 2], np.arange(len(order))[-_MOST // 2 :])
    value_N = -normalize_losses(data.loss_N[rows])
    worst = float(value_N.min())
    mean = float(value_N.mean())
    for u_ND, values in (
        (data.u_ND[rows], value_N),
        (data.failed_ND, np.full(len(data.failed_ND), worst)),
        (data.pending_PD, np.full(len(data.pending_PD), mean)),
    ):
        for x_F, value in zip(features(u_ND), values, strict=True):
            optimizer.register(x_F, float(value))
    return worst
