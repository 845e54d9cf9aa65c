"""BOHB's model: kernel densities of the good and the bad configs, whatever rung they came to."""

# N observations, D columns

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tuner.search.searchers.data import Data
from tuner.search.searchers.model import ModelSearch
from tuner.search.searchers.parzen import Parzen, likelier, scott_widths
from tuner.space.encoding import Array

_GOOD = 0.7  # ceil(_GOOD * sqrt(N)) of N trials are the good ones


class BOHBSearch(ModelSearch):
    """Suggests configs where the good trials lie dense, against the bad ones.

    After Falkner, Klein and Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at
    Scale" (2018), to be used under asynchronous Hyperband. There the model is that of the highest
    rung with enough trials, which are few; here every trial counts, by where it is expected to
    stand at the highest epoch that any has come to (`curves.standings`). startup: Sobol points that
    must have reported before the model is asked. random_share: suggestions that are drawn at
    random, so that the search cannot be misled for ever. candidates: draws that are compared.
    widening: of the kernels that candidates are drawn from.
    """

    def __init__(
        self,
        *args: Any,
        startup: int = 10,
        random_share: float = 0.05,
        candidates: int = 64,
        widening: float = 2.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, startup=startup, **kwargs)
        self._random_share = random_share
        self._candidates = candidates
        self._widening = widening

    def _propose(self, data: Data, number: int, rng: np.random.Generator) -> Iterator[Array]:
        if rng.random() < self._random_share:
            return
        u_ND = data.u_ND[np.argsort(data.loss_N, kind="stable")]
        count = math.ceil(_GOOD * math.sqrt(len(u_ND)))
        good, bad = (
            Parzen(points_ND, scott_widths(points_ND), self._space)
            for points_ND in (u_ND[:count], np.concatenate([u_ND[count:], data.failed_ND]))
        )
        yield from likelier(good, bad, self._candidates, rng, widening=self._widening)
