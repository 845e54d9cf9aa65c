"""BOHB's model: kernel densities of the good and the bad configs, whatever rung they came to."""

# N observations, M candidates, D columns

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tuner.searchers.curves import ends
from tuner.searchers.data import Data
from tuner.searchers.encoding import Array, Encoding
from tuner.searchers.model import ModelSearch

_GOOD = 0.7  # ceil(_GOOD * sqrt(N)) of N trials are the good ones
_SPREAD = 0.2  # standard deviation that the kernels' width is derived from, of the unit cube


class BOHBSearch(ModelSearch):
    """Suggests configs where the good trials lie dense, against the bad ones.

    After Falkner, Klein and Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at
    Scale" (2018), to be used under asynchronous Hyperband. There the model is that of the highest
    rung with enough trials, which are few; here every trial counts at the highest epoch that any
    has come to, with the change that is typical of those that went on (`curves.ends`). startup:
    Sobol points that must have reported before the model is asked. random_share: suggestions that
    are drawn at random, so that the search cannot be misled for ever. candidates: draws that are
    compared. widening: of the kernels that candidates are drawn from.
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
        u_ND = data.u_ND[np.argsort(ends(data.curves), kind="stable")]
        count = math.ceil(_GOOD * math.sqrt(len(u_ND)))
        good = Density(u_ND[:count], self._space)
        bad = Density(np.concatenate([u_ND[count:], data.failed_ND]), self._space)
        u_MD = good.draw(self._candidates, self._widening, rng)
        score_M = good.log_density(u_MD) - bad.log_density(u_MD)
        yield from u_MD[np.argsort(-score_M, kind="stable")]


class Density:
    """A kernel density over the unit cube: around each of N points, and one uniform kernel.

    Numbers have normal kernels cut off at the cube's faces, choices keep their value or change it;
    columns are independent within a kernel. The width depends on N and D alone, by Scott's rule:
    one that is estimated from the good points shrinks with them, and the search with it.
    """

    def __init__(self, u_ND: Array, encoding: Encoding) -> None:
        self._u_ND, self._encoding = u_ND, encoding
        count, dims = u_ND.shape
        self._width = _SPREAD * max(count, 1) ** (-1 / (4 + dims))
        self._stay = count / (count + 1)  # of a choice, against another of its values

    def draw(self, count: int, widening: float, rng: np.random.Generator) -> Array:
        """`count` points of the density, if its kernels were `widening` times as wide."""
        kernel_M = rng.integers(len(self._u_ND) + 1, size=count)
        anew_MD = rng.random((count, len(self._encoding)))
        # no coordinate: everything is drawn anew, as it is where the kernel's point has none
        nowhere_1D = np.full((1, len(self._encoding)), np.nan)
        u_MD = np.concatenate([self._u_ND, nowhere_1D])[kernel_M]
        width = self._width * widening
        below_MD, mass_MD = _inside(u_MD, width)
        near_MD = u_MD + width * ndtri(below_MD + mass_MD * rng.random(u_MD.shape))
        for d, column in enumerate(self._encoding.columns):
            if column.categories:
                stays_M = rng.random(count) < self._stay
                near_MD[:, d] = np.where(stays_M, u_MD[:, d], anew_MD[:, d])
        return self._encoding.snap(np.where(np.isnan(near_MD), anew_MD, near_MD))

    def log_density(self, u_MD: Array) -> Array:
        """The logarithm of the density; of one over the active columns, where some are not."""
        log_MN = np.zeros((len(u_MD), len(self._u_ND) + 1))  # the last kernel is uniform
        for d, column in enumerate(self._encoding.columns):
            a_M1, b_1N = u_MD[:, d][:, None], self._u_ND[:, d][None, :]
            if column.categories:
                other = (1 - self._stay) / max(column.categories - 1, 1)
                kernel_MN = np.where(np.abs(a_M1 - b_1N) < 1e-9, self._stay, other)
                log_kernel_MN = np.log(np.maximum(kernel_MN * column.categories, 1e-300))
            else:
                _, mass_1N = _inside(b_1N, self._width)
                z_MN = (a_M1 - b_1N) / self._width
                constant_1N = np.log(self._width * math.sqrt(2 * math.pi) * mass_1N)
                log_kernel_MN = -0.5 * z_MN**2 - constant_1N
            known_MN = ~np.isnan(a_M1) & ~np.isnan(b_1N)
            log_MN[:, :-1] += np.where(known_MN, log_kernel_MN, 0.0)
        density: Array = np.logaddexp.reduce(log_MN, axis=1) - math.log(log_MN.shape[1])
        return density


def _inside(u_XD: Array, width: float) -> tuple[Array, Array]:
    """(below 0, within [0, 1]): the mass of a normal kernel of this width at each coordinate."""
    below_XD = ndtr(-u_XD / width)
    return below_XD, ndtr((1 - u_XD) / width) - below_XD
