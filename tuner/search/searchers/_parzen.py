"""Parzen estimators, a kernel around each config, and the models that compare two of them."""

# N observations, M draws, K kernels (the observations and the prior), D columns, C categories

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from tuner.search.searchers._observations import ModelInput
from tuner.spec.space.encoding import Array, Encoding

_NEAR = 3  # neighbours that determine a kernel's width
_NARROWEST = 0.03
_SPREAD = 0.2  # standard deviation that Scott's rule starts from, of the unit cube
_ROUNDS = 4  # of draws, which may all be forbidden or tried
_MOST_ENTRIES = 1 << 18  # of a matrix of draws and kernels
# Of the kernels that candidates are drawn from, once trials are stopped early
_WIDENING = 2.0
_GOOD = 0.7  # of BOHB: ceil(_GOOD * sqrt(N)) of N trials are the good ones
_MAX_GOOD = 25  # as in hyperopt
_LEAST_WEIGHT = 1e-3
_LOG_NORMAL = 0.5 * np.log(2 * np.pi)


class Parzen:
    """A mixture of a kernel at each point, a product over columns, and the uniform prior.

    u_ND: snapped, NaN if inactive. width_ND: of truncated normals. weight_N: equal by default.
    """

    def __init__(
        self,
        u_ND: Array,
        width_ND: Array,
        encoding: Encoding,
        weight_N: Array | None = None,
    ) -> None:
        count, dims = u_ND.shape
        if weight_N is None:
            weight_N = np.ones(count)
        prior_weight = weight_N.mean() if count else 1.0
        weight_K = np.append(weight_N, prior_weight)
        self._weight_K = weight_K / weight_K.sum()
        self._u_KD = np.vstack([u_ND, np.full((1, dims), np.nan)])
        self._width_KD = np.vstack([width_ND, np.ones((1, dims))])
        self._encoding = encoding
        self._category_KC = {
            d: _compute_category_weights(encoding, d, self._u_KD[:, d])
            for d, column in enumerate(encoding.columns)
            if column.categories
        }
        self._log_area_K = {
            d: np.log(self._width_KD[:, d] * self._compute_inside(d)) + _LOG_NORMAL
            for d, column in enumerate(encoding.columns)
            if not column.categories
        }

    def draw(
        self, count: int, rng: np.random.Generator, *, widening: float = 1.0
    ) -> Array:
        """`count` snapped points of the mixture with kernels `widening` times as wide."""
        kernel_M = rng.choice(len(self._weight_K), size=count, p=self._weight_K)
        at_MD = rng.random((count, self._u_KD.shape[1]))  # quantiles of the kernels
        u_MD = at_MD.copy()
        for d, column in enumerate(self._encoding.columns):
            at_M = at_MD[:, d]
            if column.categories:
                share_MC = self._category_KC[d][kernel_M]
                below_MC = share_MC.cumsum(axis=1) < at_M[:, None]
                chosen_M = np.minimum(below_MC.sum(axis=1), column.categories - 1)
                u_MD[:, d] = (chosen_M + 0.5) / column.categories
                continue
            centre_M = self._u_KD[kernel_M, d]
            width_M = widening * self._width_KD[kernel_M, d]
            low_M = ndtr(-centre_M / width_M)
            high_M = ndtr((1 - centre_M) / width_M)
            mass_M = low_M + at_M * (high_M - low_M)
            near_M = centre_M + width_M * ndtri(mass_M)
            u_MD[:, d] = np.where(
                np.isnan(near_M),
                at_M,
                np.clip(near_M, 0, 1),
            )
        return self._encoding.snap(u_MD)

    def log_density(self, u_MD: Array) -> Array:
        """Relative to the uniform density; inactive columns are ignored."""
        rows = max(1, _MOST_ENTRIES // len(self._weight_K))
        parts = [
            self._log_density(u_MD[i : i + rows]) for i in range(0, len(u_MD), rows)
        ]
        if not parts:
            return np.empty(0)
        return np.concatenate(parts)

    def _compute_inside(self, d: int) -> Array:
        """The share of each normal kernel that lies between the cube's sides."""
        centre_K = self._u_KD[:, d]
        width_K = self._width_KD[:, d]
        inside_K = ndtr((1 - centre_K) / width_K)
        inside_K -= ndtr(-centre_K / width_K)
        return np.asarray(inside_K)

    def _log_density(self, u_MD: Array) -> Array:
        log_MK = np.tile(np.log(self._weight_K), (len(u_MD), 1))
        for d, column in enumerate(self._encoding.columns):
            u_M1 = u_MD[:, d, None]
            if column.categories:
                kernel_KC = np.log(self._category_KC[d] * column.categories)
                cells_M = self._encoding.find_cells(d, u_MD[:, d])
                kernel_MK = kernel_KC[:, cells_M].T
            else:
                centre_K = self._u_KD[:, d]
                width_K = self._width_KD[:, d]
                kernel_MK = -0.5 * ((u_M1 - centre_K) / width_K) ** 2
                kernel_MK -= self._log_area_K[d]
            log_MK += np.where(
                np.isnan(u_M1) | np.isnan(kernel_MK),
                0.0,
                kernel_MK,
            )
        return np.asarray(np.logaddexp.reduce(log_MK, axis=1))


def draw_by_ratio(
    good: Parzen,
    other: Parzen,
    count: int,
    rng: np.random.Generator,
    *,
    widening: float,
    favour: Callable[[Array], Array | float],
) -> Iterator[Array]:
    """Points near the good ones by the ratio of densities (Bergstra et al., 2011), best first."""
    for _ in range(_ROUNDS):
        u_MD = good.draw(count, rng, widening=widening)
        ratio_M = good.log_density(u_MD)
        ratio_M -= other.log_density(u_MD)
        ratio_M += favour(u_MD)
        order = np.argsort(-ratio_M, kind="stable")
        yield from u_MD[order]


def compute_scott_widths(u_ND: Array) -> Array:
    """Widths by the numbers of points and of columns alone (Scott's rule)."""
    count, dims = u_ND.shape
    width = _SPREAD * max(count, 1) ** (-1 / (4 + dims))
    return np.full(u_ND.shape, width)


def compute_neighbour_widths(u_ND: Array) -> Array:
    """Widths by the distance to the nearest points, column by column."""
    width_ND = np.ones(u_ND.shape)
    for d in range(u_ND.shape[1]):
        rows = np.flatnonzero(~np.isnan(u_ND[:, d]))
        if len(rows) < 2:
            width_ND[rows, d] = 0.5
            continue
        point_ND = np.nan_to_num(u_ND[rows], nan=0.5)
        squared_NN = ((point_ND[:, None] - point_ND[None]) ** 2).sum(axis=2)
        np.fill_diagonal(squared_NN, np.inf)
        near_NK = np.argsort(squared_NN, axis=1, kind="stable")[
            :, : min(_NEAR, len(rows) - 1)
        ]
        squared_NK = (point_ND[near_NK, d] - point_ND[:, d, None]) ** 2
        least = max(_NARROWEST, (1 + len(rows)) ** -2.0)
        distance_N = np.sqrt(squared_NK.mean(axis=1))
        width_ND[rows, d] = np.clip(distance_N, least, 1.0)
    return width_ND


def compute_adaptive_widths(u_ND: Array) -> Array:
    """hyperopt's widths: the wider gap to the next points of the column, or to its middle."""
    from hyperopt import tpe

    width_ND = np.ones(u_ND.shape)
    for d in range(u_ND.shape[1]):
        rows = np.flatnonzero(~np.isnan(u_ND[:, d]))
        u_N = u_ND[rows, d]
        order = np.argsort(u_N)
        # Where hyperopt puts its prior
        middle = np.searchsorted(u_N[order], 0.5)
        _, _, widths = tpe.adaptive_parzen_normal(u_N, 1.0, 0.5, 1.0, LF=0)
        if len(rows):
            width_ND[rows[order], d] = np.delete(widths, middle)
    return width_ND


def _compute_category_weights(encoding: Encoding, d: int, u_K: Array) -> Array:
    """The weight of each category in each kernel: mostly that of its point."""
    active_K = ~np.isnan(u_K)
    share_KC = np.full(
        (len(u_K), encoding.columns[d].categories), 1 / (active_K.sum() + 1)
    )
    cells = encoding.find_cells(d, u_K[active_K])
    share_KC[active_K, cells] += 1
    share_KC /= share_KC.sum(axis=1, keepdims=True)
    return np.asarray(share_KC)


@dataclass(frozen=True, slots=True)
class BOHB:
    """Proposes configs that are likelier among the good trials than among the bad ones.

    After Falkner, Klein and Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at
    Scale" (2018), for asynchronous Hyperband. There the model has the trials of the highest rung
    with enough of them; here all trials, by the loss that they are expected to reach.
    """

    random_share: float
    candidates: int

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """Points, the most promising first; none for a suggestion that is drawn at random."""
        if rng.random() < self.random_share:
            return
        order = np.argsort(data.loss_N, kind="stable")
        u_ND = data.u_ND[order]
        root = math.sqrt(len(u_ND) + data.beyond)
        count = min(math.ceil(_GOOD * root), len(u_ND))
        good_ND = u_ND[:count]
        bad_ND = np.concatenate([u_ND[count:], data.failed_ND])
        good = Parzen(good_ND, compute_scott_widths(good_ND), encoding)
        bad = Parzen(bad_ND, compute_scott_widths(bad_ND), encoding)
        yield from draw_by_ratio(
            good,
            bad,
            self.candidates,
            rng,
            widening=_WIDENING,
            favour=data.favour,
        )


@dataclass(frozen=True, slots=True)
class TPE:
    """Proposes configs that are likelier among the good trials than among the others.

    Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011), with kernels over all
    columns at once (Falkner et al., BOHB, 2018) and good trials weighted by how much better they
    are than the others (Song et al., "A General Recipe for Likelihood-free Bayesian Optimization",
    2022; Watanabe, "Tree-Structured Parzen Estimator", 2023, compares these choices). hyperopt's
    `tpe.suggest` models each hyperparameter separately.

    Once trials are stopped early, most losses are expectations, too uncertain to estimate widths
    from: these then follow from the number of trials, and candidates are drawn from wider kernels,
    as in BOHB. Failed trials and running ones without a report count among the others.
    """

    gamma: float
    candidates: int

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        order = np.argsort(data.loss_N, kind="stable")
        count = min(
            math.ceil(self.gamma * (len(order) + data.beyond)),
            _MAX_GOOD,
            len(order),
        )
        good_ND = data.u_ND[order[:count]]
        rest_ND = data.u_ND[order[count:]]
        other_ND = np.concatenate([rest_ND, data.failed_ND, data.pending_PD])
        weight_N = _compute_improvements(data.loss_N[order], count)
        if data.stops_early:
            good_widths = other_widths = compute_scott_widths
            widening = _WIDENING
        else:
            good_widths = compute_neighbour_widths
            other_widths = compute_adaptive_widths
            widening = 1.0
        good = Parzen(good_ND, good_widths(good_ND), encoding, weight_N)
        other = Parzen(other_ND, other_widths(other_ND), encoding)
        yield from draw_by_ratio(
            good,
            other,
            self.candidates,
            rng,
            widening=widening,
            favour=data.favour,
        )


def _compute_improvements(loss_N: Array, count: int) -> Array:
    """How far each of the `count` least losses is below the rest, 1 on average."""
    limit = loss_N[min(count, len(loss_N) - 1)]
    below = limit - loss_N[:count]
    most = below.max(initial=0.0)
    if not most > 0 or not math.isfinite(most):
        return np.ones(count)
    weight = below / most
    weight /= weight.mean()
    return np.asarray(np.maximum(weight, _LEAST_WEIGHT))
