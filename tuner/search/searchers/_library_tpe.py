"""The package hyperopt as a model, whose documents are rebuilt for each suggestion."""

# D columns

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tuner.search.searchers._observations import ModelInput
from tuner.spec.space.encoding import Array, Encoding

_ROUNDS = 8  # of suggestions, which may all be forbidden or tried


class LibraryTPE:
    """Proposes what hyperopt's `tpe.suggest` does, with the library's defaults.

    A number is its quantile in its domain, a choice is hyperopt's, with its branches. Failed and
    pending trials have no loss, so that hyperopt counts them among the worst.
    """

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """The library's suggestions for several seeds."""
        if len(encoding) == 0:
            return
        from hyperopt import tpe
        from hyperopt.base import Domain, trials_from_docs

        domain = Domain(_refuse_to_run, _build_space(encoding, parent=-1, number=0))
        known = trials_from_docs(_build_documents(data, encoding), validate=False)
        for _ in range(_ROUNDS):
            seed = int(rng.integers(2**31))
            ids = [len(known.trials)]
            (suggestion,) = tpe.suggest(
                ids, domain, known, seed, n_startup_jobs=0, verbose=False
            )
            yield decode_point(suggestion["misc"]["vals"], encoding)


def _refuse_to_run(config: Any) -> float:
    raise AssertionError("hyperopt only suggests")


def _build_space(encoding: Encoding, *, parent: int, number: int) -> dict[str, Any]:
    """hyperopt's space of the columns in a branch of a choice; parent -1: of those in none."""
    from hyperopt import hp

    space = {}
    for d, column in enumerate(encoding.columns):
        if column.parent != parent or (parent >= 0 and column.branch != number):
            continue
        label = str(d)
        if column.categories:
            branches = range(column.categories)
            options = [
                _build_space(encoding, parent=d, number=branch) for branch in branches
            ]
            space[label] = hp.choice(label, options)
        else:
            space[label] = hp.uniform(label, 0, 1)
    return space


def _build_documents(data: ModelInput, encoding: Encoding) -> list[dict[str, Any]]:
    """The trials as documents of hyperopt; those without a loss last."""
    from hyperopt.base import JOB_STATE_DONE, STATUS_OK, Trials

    points = np.concatenate([data.u_ND, data.failed_ND, data.pending_PD])
    results: list[dict[str, Any]] = [{"status": STATUS_OK} for _ in points]
    for result, loss in zip(results, data.loss_N.tolist(), strict=False):
        result["loss"] = loss
    miscs = []
    for number, u_D in enumerate(points):
        values = encode_point(u_D, encoding)
        ids = {label: [number] * len(held) for label, held in values.items()}
        miscs.append(
            {
                "tid": number,
                "cmd": None,
                "workdir": None,
                "idxs": ids,
                "vals": values,
            }
        )
    documents = Trials().new_trial_docs(
        range(len(points)), [None] * len(points), results, miscs
    )
    return [{**document, "state": JOB_STATE_DONE} for document in documents]


def encode_point(u_D: Array, encoding: Encoding) -> dict[str, list[Any]]:
    """hyperopt's value of each column that the point has: a quantile, or a branch's number."""
    values: dict[str, list[Any]] = {}
    for d, column in enumerate(encoding.columns):
        if np.isnan(u_D[d]):
            values[str(d)] = []
        elif column.categories:
            values[str(d)] = [int(encoding.find_cells(d, u_D[d : d + 1])[0])]
        else:
            values[str(d)] = [float(u_D[d])]
    return values


def decode_point(values: dict[str, list[Any]], encoding: Encoding) -> Array:
    """The point of hyperopt's values."""
    u_D = np.full(len(encoding), np.nan)
    for d, column in enumerate(encoding.columns):
        for value in values[str(d)]:
            u_D[d] = (value + 0.5) / column.categories if column.categories else value
    return u_D
