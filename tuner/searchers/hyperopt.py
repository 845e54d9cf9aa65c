"""Tree-structured Parzen estimators, by the hyperopt package."""

# N observations, D columns

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tuner.domains import Value
from tuner.searchers.encoding import Array, Column, Encoding
from tuner.searchers.hyperopt_space import from_hyperopt
from tuner.searchers.model import Data, ModelSearch

_TRIES = 20  # proposals that may be forbidden or known already
_DONE = 2  # hyperopt's state of a trial that is over


class HyperOptSearch(ModelSearch):
    """Suggests configs that are likelier among the good trials than among the others.

    Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011). Losses are compared at
    equal epochs; trials that failed, or run, count among the others. `space` may be hyperopt's own,
    of `hp` calls; points_to_evaluate then name what a choice chooses, not its number. gamma:
    ceil(gamma * sqrt(n)) of n trials are the good ones. candidates: draws that are compared.
    startup: trials that must have reported before the model is asked.
    """

    def __init__(
        self, *args: Any, gamma: float = 1.0, candidates: int = 24, startup: int = 10, **kwargs: Any
    ) -> None:
        self._gamma = gamma
        self._candidates = candidates
        self._model: Any = None
        super().__init__(*args, startup=startup, **kwargs)

    def _propose(self, data: Data, number: int, rng: np.random.Generator) -> Iterator[Array]:
        from hyperopt import tpe
        from hyperopt.base import Trials

        logging.getLogger("hyperopt").setLevel(logging.WARNING)
        model = self._domain()
        trials = Trials()
        u_ND = np.concatenate([data.u_ND, data.failed_ND, data.pending_PD])
        losses = [*data.loss_N, *[np.inf] * (len(u_ND) - len(data.loss_N))]
        docs = [
            _document(tid, self._space, u_D, loss)
            for tid, (u_D, loss) in enumerate(zip(u_ND, losses, strict=True))
        ]
        trials._insert_trial_docs(docs)
        trials.refresh()
        for _ in range(_TRIES):
            (found,) = tpe.suggest(
                [len(docs)],
                model,
                trials,
                int(rng.integers(2**31)),
                n_startup_jobs=0,
                n_EI_candidates=self._candidates,
                gamma=self._gamma,
                verbose=False,
            )
            yield _point(found["misc"]["vals"], self._space)

    def _translated(self, space: Mapping[str, Any]) -> Mapping[str, Value]:
        return from_hyperopt(space)

    def _domain(self) -> Any:
        """The space as hyperopt takes it: quantiles, and choices for what they choose."""
        if self._model is None:
            from hyperopt.base import Domain

            self._model = Domain(_no_objective, _expression(self._space, -1, 0))
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None}


def _no_objective(config: Mapping[str, Any]) -> float:
    raise AssertionError("trials run elsewhere")


def _expression(encoding: Encoding, parent: int, branch: int) -> dict[str, Any]:
    """hyperopt's expression of the columns in one branch."""
    from hyperopt import hp

    expression = {}
    for d, column in enumerate(encoding.columns):
        if (column.parent, column.branch) != (parent, branch):
            continue
        options = [_expression(encoding, d, number) for number in range(column.categories)]
        label = str(d)
        expression[label] = hp.choice(label, options) if options else hp.uniform(label, 0, 1)
    return expression


def _document(tid: int, encoding: Encoding, u_D: Array, loss: float) -> dict[str, Any]:
    """A trial as hyperopt keeps it."""
    values = {
        str(d): [] if np.isnan(u) else [_coordinate(column, float(u))]
        for d, (column, u) in enumerate(zip(encoding.columns, u_D, strict=True))
    }
    ids = {label: [tid] * len(found) for label, found in values.items()}
    misc = {"tid": tid, "cmd": None, "workdir": None, "idxs": ids, "vals": values}
    result = {"status": "ok", "loss": float(loss)}
    return {"tid": tid, "state": _DONE, "spec": None, "result": result, "misc": misc}


def _coordinate(column: Column, u: float) -> float | int:
    return min(int(u * column.categories), column.categories - 1) if column.categories else u


def _point(values: Mapping[str, Any], encoding: Encoding) -> Array:
    u_D = np.full(len(encoding), np.nan)
    for d, column in enumerate(encoding.columns):
        found = values.get(str(d), [])
        if len(found):
            u_D[d] = (found[0] + 0.5) / column.categories if column.categories else found[0]
    return u_D
