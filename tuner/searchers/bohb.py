"""BOHB's model: kernel densities of the good and the bad configs of the highest useful rung."""

# N observations, M candidates, D columns

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tuner.searchers.encoding import Array, Encoding
from tuner.searchers.model import Data, ModelSearch

_GOOD_SHARE = 0.15
_WIDEST = 0.5
_NARROWEST = 0.01


class BOHBSearch(ModelSearch):
    """Suggests configs where the good trials of one rung lie dense, against the bad ones.

    Falkner, Klein and Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale"
    (2018), to be used under asynchronous successive halving. The rung is the highest epoch that
    enough trials have come to. random_share: suggestions that are drawn at random, so that the
    search cannot be misled for ever. candidates: draws that are compared. widening: of the kernels
    that candidates are drawn from.
    """

    def __init__(
        self,
        *args: Any,
        random_share: float = 1 / 3,
        candidates: int = 64,
        widening: float = 3.0,
        startup: int = 6,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, startup=startup, **kwargs)
        self._random_share = random_share
        self._candidates = candidates
        self._widening = widening

    def _propose(self, data: Data, number: int, rng: np.random.Generator) -> Iterator[Array]:
        if rng.random() < self._random_share:
            return
        rung = self._rung(data)
        if rung is None:
            return
        good_ND, bad_ND = rung
        bad_ND = np.concatenate([bad_ND, data.failed_ND])
        good, bad = Density(good_ND, self._space), Density(bad_ND, self._space)
        u_MD = good.draw(self._candidates, self._widening, rng)
        score_M = good.log_density(u_MD) - bad.log_density(u_MD)
        yield from u_MD[np.argsort(-score_M, kind="stable")]

    def _rung(self, data: Data) -> tuple[Array, Array] | None:
        """(good, bad) configs of the highest epoch with enough trials."""
        least = len(self._space) + 1
        epochs = sorted({epoch for curve in data.curves for epoch in curve}, reverse=True)
        for epoch in epochs:
            rows = [i for i, curve in enumerate(data.curves) if epoch in curve]
            if len(rows) < least + 2:
                continue
            order = np.argsort([data.curves[i][epoch] for i in rows], kind="stable")
            u_ND = data.u_ND[rows][order]
            count = max(least, int(_GOOD_SHARE * len(rows)))
            return u_ND[:count], u_ND[min(count, len(rows) - least) :]
        return None


class Density:
    """A kernel density over points; choices have a kernel of their own, columns are independent.

    A uniform density with the weight of one point is mixed in, so that it is 0 nowhere.
    """

    def __init__(self, u_ND: Array, encoding: Encoding) -> None:
        self._u_ND, self._encoding = u_ND, encoding
        count, dims = u_ND.shape
        self._width_D = np.full(dims, _WIDEST)
        for d in range(dims):
            here = u_ND[~np.isnan(u_ND[:, d]), d]
            if len(here) > 1:  # Scott's rule
                width = 1.06 * here.std() * len(here) ** (-1 / (4 + dims))
                self._width_D[d] = np.clip(width, _NARROWEST, _WIDEST)
        self._stay = count / (count + 1)  # of a choice, against another of its values

    def draw(self, count: int, widening: float, rng: np.random.Generator) -> Array:
        """Points around those of the density, by kernels that are `widening` times as wide."""
        u_MD = self._u_ND[rng.integers(len(self._u_ND), size=count)]
        anew_MD = rng.random(u_MD.shape)
        steps_MD = rng.standard_normal(u_MD.shape) * np.minimum(self._width_D * widening, 1.0)
        for d, column in enumerate(self._encoding.columns):
            near_M = u_MD[:, d] + steps_MD[:, d]
            outside_M = ~((near_M >= 0) & (near_M <= 1))
            if column.categories:
                stays_M = rng.random(count) < self._stay
                u_MD[:, d] = np.where(stays_M, u_MD[:, d], anew_MD[:, d])
            else:
                u_MD[:, d] = np.where(outside_M, anew_MD[:, d], near_M)
        u_MD = np.where(np.isnan(u_MD), anew_MD, u_MD)
        return self._encoding.snap(u_MD)

    def log_density(self, u_MD: Array) -> Array:
        """Up to a constant that is the same for every density over the space."""
        log_MN = np.zeros((len(u_MD), len(self._u_ND)))
        for d, column in enumerate(self._encoding.columns):
            a_M1, b_1N = u_MD[:, d][:, None], self._u_ND[:, d][None, :]
            known_MN = ~np.isnan(a_M1) & ~np.isnan(b_1N)
            if column.categories:
                same_MN = np.abs(a_M1 - b_1N) < 1e-9
                other = (1 - self._stay) / max(column.categories - 1, 1)
                kernel_MN = np.where(same_MN, self._stay, other) * column.categories
            else:
                width = self._width_D[d]
                z_MN = (a_M1 - b_1N) / width
                kernel_MN = np.exp(-0.5 * z_MN**2) / (width * np.sqrt(2 * np.pi))
            log_MN += np.where(known_MN, np.log(np.maximum(kernel_MN, 1e-300)), 0.0)
        total_M = np.exp(np.minimum(log_MN, 500)).sum(axis=1) + 1.0
        density: Array = np.log(total_M / (len(self._u_ND) + 1))
        return density
