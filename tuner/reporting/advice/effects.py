"""How much of the differences between trials each hyperparameter explains, with bounds.

A regression of normal scores: the ranks of the trials as quantiles of a normal distribution, so
that diverged trials do not dominate. A number has a linear and a quadratic term, a choice a term
for each value. A partial R^2 is the share of the remaining variance that some terms explain beside
all others; its upper bound follows from the noncentral F distribution.
"""

# N trials, C coefficients

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tuner.reporting.advice.record import SearchRecord
from tuner.spec.space.encoding import Array, Column

SPARE = 12  # trials beyond the coefficients, below which a regression says nothing
_LEVEL = 0.05  # of an upper bound, shared among the hyperparameters
_LARGEST = 1e4  # noncentrality


@dataclass(frozen=True, slots=True)
class Effect:
    """The partial R^2 of some terms, its upper bound, and its p-value if they had no effect."""

    names: tuple[str, ...]
    share: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of all hyperparameters and pairs. n: trials; needed: by the regression.

    total: R^2, adjusted for the number of terms. With too few trials both tuples are empty.
    """

    n: int
    needed: int
    total: float = 0.0
    singles: tuple[Effect, ...] = ()
    pairs: tuple[Effect, ...] = ()


def estimate_effects(
    record: SearchRecord, trials: Sequence[int] | None = None
) -> Effects:
    """The effects among the trials of these numbers (None: all)."""
    chosen = (
        np.arange(len(record.trials))
        if trials is None
        else np.array(trials, dtype=np.int64)
    )
    chosen = chosen[~np.isnan(record.u_ND[chosen]).all(axis=1)]
    blocks = {
        c.path: build_terms(c, record.u_ND[chosen, d]) for d, c in record.searched
    }
    blocks = {name: block_NC for name, block_NC in blocks.items() if block_NC.shape[1]}
    columns = sum(block_NC.shape[1] for block_NC in blocks.values())
    n = len(chosen)
    needed = 1 + columns + SPARE
    if n < needed or not blocks:
        return Effects(n, needed)
    y_N = compute_normal_scores(record.cost_N[chosen])
    spare = n - 1 - columns
    level = _LEVEL / len(blocks)
    full = _compute_residual([*blocks.values()], y_N)
    singles = []
    pairs = []
    for name, block_NC in blocks.items():
        without = _compute_residual(
            [b_NC for other, b_NC in blocks.items() if other != name], y_N
        )
        singles.append(
            _estimate_effect((name,), without, full, block_NC.shape[1], spare, level)
        )
    for (a, a_NC), (b, b_NC) in combinations(blocks.items(), 2):
        product = _compute_residual([*blocks.values(), a_NC[:, :1] * b_NC[:, :1]], y_N)
        pairs.append(_estimate_effect((a, b), full, product, 1, spare - 1, level))
    total = 1 - (full / spare) / (_compute_residual([], y_N) / (n - 1))
    return Effects(n, needed, total, tuple(singles), tuple(pairs))


def build_terms(column: Column, u_N: Array) -> Array:
    """The terms of a hyperparameter, N x C, without those that are constant."""
    if column.categories:
        cells_N = np.floor(np.nan_to_num(u_N) * column.categories)
        block_NC = (cells_N[:, None] == np.arange(1, column.categories)).astype(float)
    else:
        centred_N = np.nan_to_num(u_N, nan=0.5) - 0.5
        block_NC = np.column_stack([centred_N, centred_N**2])
    return np.asarray(block_NC[:, np.ptp(block_NC, axis=0) > 0])


def rank_values(x_N: Array) -> Array:
    """The ranks from 1 on; equals share their mean."""
    _, inverse, counts = np.unique(x_N, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(mean_ranks[inverse])


def compute_normal_scores(cost_N: Array) -> Array:
    """The quantiles of a normal distribution at the ranks of the costs (Blom's)."""
    from scipy.special import ndtri

    levels_N = (rank_values(cost_N) - 0.375) / (len(cost_N) + 0.25)
    return np.asarray(ndtri(levels_N))


def _compute_residual(blocks: Sequence[Array], y_N: Array) -> float:
    """The sum of the squared residuals of least squares with an intercept."""
    x_NC = np.column_stack([np.ones(len(y_N)), *blocks])
    coefficients_C = np.linalg.lstsq(x_NC, y_N, rcond=None)[0]
    residual_N = y_N - x_NC @ coefficients_C
    return float((residual_N**2).sum())


def _estimate_effect(
    names: tuple[str, ...],
    without: float,
    full: float,
    terms: int,
    spare: int,
    level: float,
) -> Effect:
    """The effect of `terms` terms that lower the sum of squares from `without` to `full`."""
    from scipy.special import fdtrc, ncfdtr

    full = max(full, 1e-12)
    f = max(without - full, 0.0) / terms / (full / spare)
    low = 0.0
    # Around the noncentrality at which so low an F has the chance level
    high = _LARGEST
    for _ in range(60):
        middle = (low + high) / 2
        if ncfdtr(terms, spare, middle, f) > level:
            low = middle
        else:
            high = middle
    bound = high / (high + spare + terms + 1)
    return Effect(
        names,
        1 - full / max(without, full),
        bound,
        float(fdtrc(terms, spare, f)),
    )
