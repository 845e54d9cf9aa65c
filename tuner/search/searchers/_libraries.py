"""Packages as models: `engine=bayesian-optimization` of bayesopt, `engine=hyperopt` of hyperopt.

The library's objects are rebuilt for each suggestion from the trials and a seed, so that a resumed
search goes on the same.
"""

# N trials, D columns, F features

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuner.search.searchers._bayesopt import Features, blas, targets
from tuner.search.searchers._observations import ModelInput
from tuner.spec.space.encoding import Array, Encoding

if TYPE_CHECKING:
    from bayes_opt import BayesianOptimization


_GP_ROUNDS = 4  # of suggestions, which may all be forbidden or tried
_MOST = 400  # trials that the process is fitted to: the best and the latest
_STARTS = 3  # of the library's local search


class LibraryGP:
    """Proposes what the library suggests, with its defaults but for the starts of a local search.

    The library gets `Features`: its choices and integers are experimental, and with them a
    suggestion takes seconds. It maximises the negated `targets`. Failed trials count as the worst,
    running ones without a report as the mean.
    """

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """The library's suggestion; each further one as if those before had been bad."""
        if len(encoding) == 0:
            return
        features = Features(encoding)
        optimizer = _optimizer(features, int(rng.integers(2**31)))
        worst = _tell(optimizer, data, features)
        for _ in range(_GP_ROUNDS):
            with blas().limit(limits=1, user_api="blas"):
                suggested = optimizer.suggest()
            x_F = np.array([suggested[name] for name in optimizer.space.keys])
            yield features.point(x_F)
            optimizer.register(x_F, worst)


def _optimizer(features: Features, seed: int) -> BayesianOptimization:
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


def _tell(optimizer: BayesianOptimization, data: ModelInput, features: Features) -> float:
    """Register the trials; returns the value of the worst."""
    order = np.argsort(data.loss_N, kind="stable")
    rows = np.union1d(order[: _MOST // 2], np.arange(len(order))[-_MOST // 2 :])
    value_N = -targets(data.loss_N[rows])
    worst, mean = float(value_N.min()), float(value_N.mean())
    for u_ND, values in (
        (data.u_ND[rows], value_N),
        (data.failed_ND, np.full(len(data.failed_ND), worst)),
        (data.pending_PD, np.full(len(data.pending_PD), mean)),
    ):
        for x_F, value in zip(features(u_ND), values, strict=True):
            optimizer.register(x_F, float(value))
    return worst


_TPE_ROUNDS = 8  # of suggestions, which may all be forbidden or tried


class HyperOptTPE:
    """Proposes what hyperopt suggests, with the library's defaults.

    A number is its quantile in its domain, a choice is hyperopt's, with its branches. Failed trials
    and running ones without a report have no loss, which hyperopt counts among the worst.
    """

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """hyperopt's suggestions for several seeds."""
        if len(encoding) == 0:
            return
        from hyperopt import tpe
        from hyperopt.base import Domain, trials_from_docs

        domain = Domain(_not_evaluated, _branch(encoding, parent=-1, number=0))
        known = trials_from_docs(_documents(data, encoding), validate=False)
        for _ in range(_TPE_ROUNDS):
            seed = int(rng.integers(2**31))
            ids = [len(known.trials)]
            (suggestion,) = tpe.suggest(ids, domain, known, seed, n_startup_jobs=0, verbose=False)
            yield point_of(suggestion["misc"]["vals"], encoding)


def _not_evaluated(config: Any) -> float:
    raise AssertionError("hyperopt only suggests")


def _branch(encoding: Encoding, *, parent: int, number: int) -> dict[str, Any]:
    """hyperopt's space of the columns in a branch of a choice; parent -1: of those in none."""
    from hyperopt import hp

    space = {}
    for d, column in enumerate(encoding.columns):
        if column.parent != parent or (parent >= 0 and column.branch != number):
            continue
        label = str(d)
        if column.categories:
            branches = range(column.categories)
            options = [_branch(encoding, parent=d, number=branch) for branch in branches]
            space[label] = hp.choice(label, options)
        else:
            space[label] = hp.uniform(label, 0, 1)
    return space


def _documents(data: ModelInput, encoding: Encoding) -> list[dict[str, Any]]:
    """The trials as documents of hyperopt; those without a loss last."""
    from hyperopt.base import JOB_STATE_DONE, STATUS_OK, Trials

    points = np.concatenate([data.u_ND, data.failed_ND, data.pending_PD])
    results: list[dict[str, Any]] = [{"status": STATUS_OK} for _ in points]
    for result, loss in zip(results, data.loss_N.tolist(), strict=False):
        result["loss"] = loss
    miscs = []
    for number, u_D in enumerate(points):
        values = values_of(u_D, encoding)
        ids = {label: [number] * len(held) for label, held in values.items()}
        misc = {"tid": number, "cmd": None, "workdir": None, "idxs": ids, "vals": values}
        miscs.append(misc)
    numbers = range(len(points))
    documents = Trials().new_trial_docs(numbers, [None] * len(points), results, miscs)
    return [{**document, "state": JOB_STATE_DONE} for document in documents]


def values_of(u_D: Array, encoding: Encoding) -> dict[str, list[Any]]:
    """hyperopt's value of each column that the point has: a quantile, or a branch's number."""
    return {
        str(d): []
        if np.isnan(u_D[d])
        else [int(encoding.cells(d, u_D[d : d + 1])[0]) if column.categories else float(u_D[d])]
        for d, column in enumerate(encoding.columns)
    }


def point_of(values: dict[str, list[Any]], encoding: Encoding) -> Array:
    """The point of hyperopt's values."""
    u_D = np.full(len(encoding), np.nan)
    for d, column in enumerate(encoding.columns):
        for value in values[str(d)]:
            u_D[d] = (value + 0.5) / column.categories if column.categories else value
    return u_D
