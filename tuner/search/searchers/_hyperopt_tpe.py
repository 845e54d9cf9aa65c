"""hyperopt's own `tpe.suggest` as a model: `search.engine=hyperopt`.

hyperopt keeps what it knows in `Trials` and draws from a generator of its own. Here both are made
anew for each suggestion, of the trials so far and of a seed, so that a search goes on the same
after a resume.
"""

# N observations, D columns

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tuner.search.searchers._observations import ModelInput
from tuner.spec.space.encoding import Array, Encoding

_ROUNDS = 8  # of suggestions, which may all be forbidden or known already


class HyperOptTPE:
    """Proposes what hyperopt suggests, with the library's defaults.

    A number is its quantile in its domain, uniform from 0 to 1; a choice is hyperopt's, with its
    branches. Trials that failed, or run and have reported nothing, are without a loss, which
    hyperopt counts among the worst.
    """

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """hyperopt's suggestion for one seed after the other."""
        if len(encoding) == 0:
            return
        from hyperopt import tpe
        from hyperopt.base import Domain, trials_from_docs

        domain = Domain(_not_evaluated, _branch(encoding, parent=-1, number=0))
        known = trials_from_docs(_documents(data, encoding), validate=False)
        for _ in range(_ROUNDS):
            seed = int(rng.integers(2**31))
            ids = [len(known.trials)]
            (suggestion,) = tpe.suggest(ids, domain, known, seed, n_startup_jobs=0, verbose=False)
            yield point_of(suggestion["misc"]["vals"], encoding)


def _not_evaluated(config: Any) -> float:
    raise AssertionError("hyperopt only suggests")


def _branch(encoding: Encoding, *, parent: int, number: int) -> dict[str, Any]:
    """hyperopt's space of the columns in one branch of a choice; of those in none for parent -1."""
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
    """The trials as hyperopt keeps them; those without a loss last."""
    from hyperopt.base import STATUS_OK

    without_MD = np.concatenate([data.failed_ND, data.pending_PD])
    results = [
        *({"status": STATUS_OK, "loss": float(loss)} for loss in data.loss_N),
        *({"status": STATUS_OK} for _ in without_MD),
    ]
    points = np.concatenate([data.u_ND, without_MD])
    return [
        _document(number, values_of(u_D, encoding), result)
        for number, (u_D, result) in enumerate(zip(points, results, strict=True))
    ]


def _document(number: int, values: dict[str, list[Any]], result: dict[str, Any]) -> dict[str, Any]:
    """A trial as `hyperopt.Trials` keeps it."""
    from hyperopt.base import JOB_STATE_DONE

    ids = {label: [number] * len(held) for label, held in values.items()}
    return {
        "tid": number,
        "state": JOB_STATE_DONE,
        "spec": None,
        "result": result,
        "misc": {"tid": number, "cmd": None, "workdir": None, "idxs": ids, "vals": values},
        "exp_key": None,
        "owner": None,
        "version": 0,
        "book_time": None,
        "refresh_time": None,
    }


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
