"""What Gaussian processes are fitted to: features of points, and normalized losses."""

# N observations, D columns, F features

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import yeojohnson
from threadpoolctl import ThreadpoolController

from tuner.search.curves import clip_losses
from tuner.spec.space.encoding import Array, Encoding

_INACTIVE = 0.5  # of a feature
_FAR_OUT = 30.0  # times the distance from the best quarter to the median: 20 deviations
_MOST_TRIALS = 400  # in the process: a suggestion takes about 0.1 s for so many


class Features:
    """Points as features: one for a number, C for a choice of C values. Inactive columns are
    constant.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        groups = []
        for d, column in enumerate(encoding.columns):
            size = 1
            if column.categories > 2:
                size = column.categories
            groups += [d] * size
        self.groups_F: NDArray[np.int64] = np.array(groups, dtype=np.int64)

    def __call__(self, u_ND: Array) -> Array:
        columns = []
        for d, column in enumerate(self._encoding.columns):
            inactive_N = np.isnan(u_ND[:, d])
            u_N = np.where(inactive_N, _INACTIVE, u_ND[:, d])
            if column.categories > 2:
                cells_N = self._encoding.find_cells(d, u_N)
                one_hot = np.eye(column.categories)[cells_N]
                one_hot[inactive_N] = 1 / column.categories
                one_hot /= np.sqrt(2)
                columns += list(one_hot.T)
            else:
                columns.append(u_N)
        x_NF = np.array(columns).T
        return x_NF.reshape(len(u_ND), len(self.groups_F))

    @property
    def largest_F(self) -> Array:
        """The largest value of each feature; the least is 0."""
        alone = np.bincount(self.groups_F) == 1
        return np.where(alone[self.groups_F], 1.0, 1 / np.sqrt(2))

    def decode_point(self, x_F: Array) -> Array:
        """The nearest point; a choice has the value of its largest feature."""
        u_D = np.empty(len(self._encoding))
        for d, column in enumerate(self._encoding.columns):
            values = x_F[self.groups_F == d]
            u_D[d] = (
                values[0]
                if len(values) == 1
                else (values.argmax() + 0.5) / column.categories
            )
        return u_D


_load_controller = cache(ThreadpoolController)


def limit_blas() -> AbstractContextManager[Any]:
    """One BLAS thread: a suggestion takes 0.017 s, not 0.31 s, beside busy trials."""
    limits: AbstractContextManager[Any] = _load_controller().limit(
        limits=1, user_api="blas"
    )
    return limits


def select_rows(loss_N: Array) -> NDArray[np.int64]:
    """All rows; of too many the best, and as many that are spread over the others."""
    if len(loss_N) <= _MOST_TRIALS:
        return np.arange(len(loss_N))
    half = _MOST_TRIALS // 2
    order = np.argsort(loss_N, kind="stable")
    others = order[half:]
    positions = np.linspace(0, len(others) - 1, half)
    spread = others[positions.astype(int)]
    return np.sort(np.concatenate([order[:half], spread]))


def normalize_losses(loss_N: Array) -> Array:
    """Losses, winsorized and made normal (Yeo and Johnson), of zero mean and unit variance."""
    loss_N = winsorize(clip_losses(loss_N))
    spread = loss_N.std()
    if spread <= 1e-300 or not np.isfinite(spread):
        return np.zeros_like(loss_N)
    low, high = np.quantile(loss_N, [0.25, 0.75])
    scale = max(float(high - low), 1e-3 * spread)
    z_N = loss_N - np.median(loss_N)
    z_N /= scale
    z_N = np.clip(z_N, -1e6, 1e6)
    with suppress(ValueError, ArithmeticError, RuntimeError):
        z_N = np.asarray(yeojohnson(z_N)[0])
    if not np.isfinite(z_N).all() or z_N.std() <= 0:
        z_N = loss_N
    return np.asarray((z_N - z_N.mean()) / z_N.std())


def winsorize(loss_N: Array) -> Array:
    """Losses without outliers (Tukey, "The Future of Data Analysis", 1962, section 14)."""
    least, quarter, median = np.quantile(loss_N, [0, 0.25, 0.5])
    spread = (median - quarter) or (median - least)
    if spread > 0:
        loss_N = np.minimum(loss_N, median + _FAR_OUT * spread)
    return loss_N
