"""How important each hyperparameter is: PED-ANOVA, with its spread over resampled trials.

Watanabe, Bansal and Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in
Arbitrary Subspaces", IJCAI 2023: the Pearson divergence between the density of the best trials and
that of all. Shares equal those of Optuna's `PedAnovaImportanceEvaluator`, which takes 14 s where
this takes 0.03 s (2,000 trials, 30 resamples).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.reporting.axes import Axis

# N trials, G cells of a grid, K kernels
FEWEST = 10  # trials, below which nothing is said of the hyperparameters

_LEVEL = 0.9  # of an importance's spread
_RESAMPLES = 30
_BEST_SHARE = 0.1
_LEADING = 5  # trials at least among the best, as PED-ANOVA needs
_MOST_CELLS = 50
_FEWEST_WITH = 2  # trials that have the hyperparameter
_FLOOR = 1e-12  # of a density
_LEAST_SIGMA = 0.5 / 1.64  # a cell holds 90 % of such a kernel

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """A hyperparameter's share, 0 to 1, of all importance; low, high: of nine in ten resamples.

    told_apart: whether its interval and that of the first (for the first: all others) are disjoint.
    By chance alone, the first of several useless hyperparameters has more than half of all
    importance.
    """

    name: str
    share: float
    low: float
    high: float
    told_apart: bool = True


def estimate_importances(
    axes: Mapping[str, Axis],
    configs: Sequence[Mapping[str, Any]],
    losses: Sequence[float],
) -> list[Importance]:
    """The importance of each of `axes`, the greatest first; [] for fewer than 10 trials.

    configs, losses: of each trial. What distinguishes the best tenth of the trials (at least 5)
    from all. The ages of the other trials do not matter. The spread is that of resampled trials.
    """
    trials = len(losses)
    if trials < FEWEST or not axes:
        return []
    losses_N = np.array(losses, float)
    cells = {name: _find_cells(axis, name, configs) for name, axis in axes.items()}
    chance = np.random.default_rng(0)
    shares = _compute_shares(axes, cells, losses_N)
    resampled = []
    for _ in range(_RESAMPLES):
        rows_N = chance.integers(trials, size=trials)
        some = {name: cells_N[rows_N] for name, cells_N in cells.items()}
        resampled.append(_compute_shares(axes, some, losses_N[rows_N]))
    cut = round(_RESAMPLES * (1 - _LEVEL) / 2)
    listed = []
    for name, share in shares.items():
        spread = sorted(sample[name] for sample in resampled)
        importance = Importance(
            name,
            share,
            low=spread[cut],
            high=spread[-1 - cut],
        )
        listed.append(importance)
    first, *others = sorted(listed, key=lambda item: -item.share)
    others = [replace(item, told_apart=item.high < first.low) for item in others]
    told_apart = all(item.told_apart for item in others)
    return [replace(first, told_apart=told_apart), *others]


def _compute_shares(
    axes: Mapping[str, Axis],
    cells: Mapping[str, NDArray[np.int64]],
    losses_N: Numbers,
) -> dict[str, float]:
    """Each hyperparameter's importance, which together are 1. cells: -1 of a trial without it."""
    trials = len(losses_N)
    quantile = min(1.0, max(_BEST_SHARE, _LEADING / trials))
    last = ceil(quantile * trials) - 1
    is_best_N = losses_N <= np.partition(losses_N, last)[last]
    values = {
        name: _compute_importance(axes[name], cells_N, is_best_N)
        for name, cells_N in cells.items()
    }
    total = sum(values.values())
    if not total:
        return dict.fromkeys(values, 1 / len(values))
    return {name: value / total for name, value in values.items()}


def _compute_importance(
    axis: Axis,
    cells_N: NDArray[np.int64],
    is_best_N: NDArray[np.bool_],
) -> float:
    """What the hyperparameter adds to the variance, up to a factor that all have in common."""
    has_N = cells_N >= 0
    best = int((has_N & is_best_N).sum())
    size = _count_cells(axis)
    if size < 2 or not best or has_N.sum() < _FEWEST_WITH:
        return 0.0
    top_G = (
        _estimate_density(axis, np.bincount(cells_N[has_N & is_best_N], minlength=size))
        + _FLOOR
    )
    all_G = (
        _estimate_density(axis, np.bincount(cells_N[has_N], minlength=size)) + _FLOOR
    )
    divergence = float(all_G @ (top_G / all_G - 1) ** 2)
    share = best / is_best_N.sum()
    return float(share**2 / has_N.mean() * divergence)


def _count_cells(axis: Axis) -> int:
    """The number of the axis' cells."""
    if axis.categories:
        return len(axis.categories)
    if axis.low == axis.high:
        return 1
    if not axis.is_integer:
        return _MOST_CELLS
    values = axis.high - axis.low + 1
    if axis.is_log:
        return min(_MOST_CELLS, ceil(log2(values)) + 1)
    return min(_MOST_CELLS, int(values))


def _find_cells(
    axis: Axis, name: str, configs: Sequence[Mapping[str, Any]]
) -> NDArray[np.int64]:
    """The cell of each trial's value; -1 of a trial without one."""
    cells_N = np.full(len(configs), -1)
    rows = [row for row, config in enumerate(configs) if name in config]
    positions = np.array(axis.find_positions(configs[row][name] for row in rows))
    if not axis.categories:
        low = axis.low
        high = axis.high
        if axis.is_log:
            low = log(low)
            high = log(high)
            positions = np.log(positions)
        last = _count_cells(axis) - 1
        width = (high - low) / last if last else 1.0
        steps = (positions - low) / width
        positions = np.clip(np.ceil(steps - 0.5), 0, last)
    cells_N[rows] = positions
    return cells_N


def _estimate_density(axis: Axis, counts_G: NDArray[np.int64]) -> Numbers:
    """A Parzen estimate on the grid, with one further kernel that is as wide as the axis."""
    from scipy.special import ndtr  # takes 0.2 s

    observed_K = np.flatnonzero(counts_G)
    observed = len(observed_K)
    weights_K = np.append(counts_G[observed_K], 1.0)
    weights_K /= weights_K.sum()
    size = len(counts_G)
    if axis.categories:
        kernels = len(weights_K)
        kernels_KG = np.full((kernels, size), 1 / kernels)
        kernels_KG[np.arange(observed), observed_K] += 1
    else:
        means_K = np.append(observed_K, (size - 1) / 2)
        width = max(
            _compute_scott_width(observed_K, counts_G[observed_K]), _LEAST_SIGMA
        )
        sigmas_K1 = np.append(np.full(observed, width), size)[:, None]
        edges_1E = np.arange(size + 1)[None] - 0.5
        scaled_KE = (edges_1E - means_K[:, None]) / sigmas_K1
        kernels_KG = np.diff(ndtr(scaled_KE))
    kernels_KG /= kernels_KG.sum(axis=1, keepdims=True)
    density_G: Numbers = weights_K @ kernels_KG
    return density_G


def _compute_scott_width(
    values_K: NDArray[np.int64], weights_K: NDArray[np.int64]
) -> float:
    """Scott, "Multivariate Density Estimation", 1992, of values that occur so often."""
    total = int(weights_K.sum())
    mean = values_K @ weights_K / total
    squares_K = (values_K - mean) ** 2
    deviation = np.sqrt(squares_K @ weights_K / max(1, total - 1))
    cumulated_K = np.cumsum(weights_K)
    first = int(np.searchsorted(cumulated_K, total // 4, side="left"))
    third = int(np.searchsorted(cumulated_K, total * 3 // 4, side="right"))
    quartiles = values_K[min(len(values_K) - 1, third)] - values_K[first]
    spread = min(quartiles / 1.34, deviation)
    return float(1.059 * spread * total**-0.2)
