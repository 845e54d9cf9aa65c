"""Bayesian optimisation: a Gaussian process, expected improvement, kriging believers."""

# N observations, M candidates, P pending, D columns, F features, S starts of the local search

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import Any

import numpy as np

from tuner.search.curves import CurveModel, interpolate_curves, list_milestones
from tuner.search.searchers._gaussian import (
    GaussianProcess,
    compute_squared_distances,
    log_expected_improvement,
)
from tuner.search.searchers._observations import ModelInput
from tuner.search.searchers._process_inputs import (
    Features,
    limit_blas,
    normalize_losses,
    select_rows,
)
from tuner.spec.space.encoding import Array, Encoding

_MOST_ROWS = 10_000  # predicted at once
_REACH = 0.004  # of a running trial, as a share of the unit cube's diagonal
_TOO_NEAR = 1e13  # more than logarithms of expected improvements differ
_PROPOSED = 64  # points, after those that the local search finds
_STARTS = 8  # of the local search


class BayesOpt:
    """Maximises expected improvement; running trials count as their mean (kriging believers).

    Stopped trials count as their predicted end, with its uncertainty as noise.
    """

    def __init__(self) -> None:
        self._fitted: tuple[bytes, GaussianProcess] | None = None

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        with limit_blas():
            points = list(self._suggest_points(data, encoding, rng))
        yield from points

    def _suggest_points(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        features = Features(encoding)
        process = copy(self._fit_process(data, features))
        running_PD = np.concatenate([data.pending_PD, data.u_ND[data.live_N]])
        running_PF = features(running_PD)
        process.believe(running_PF)
        every_ND = np.concatenate([data.u_ND, data.pending_PD])
        least = []
        for start in range(0, len(every_ND), _MOST_ROWS):
            x_NF = features(every_ND[start : start + _MOST_ROWS])
            mean_N, _ = process.predict(x_NF)
            least.append(float(mean_N.min()))
        best = min(least)

        def score(u_MD: Array) -> Array:
            x_MF = features(u_MD)
            mean_M, sd_M = process.predict(x_MF)
            apart_M = measure_nearness(x_MF, running_PF, len(encoding))
            merit_M = log_expected_improvement(mean_M, sd_M, best)
            merit_M -= _TOO_NEAR * apart_M
            return merit_M + data.favour(u_MD)

        order = np.argsort(data.loss_N, kind="stable")
        leaders_ND = data.u_ND[order[:5]]
        yield from maximise(
            score,
            encoding,
            leaders_ND,
            rng,
            data.allows,
        )

    def _fit_process(self, data: ModelInput, features: Features) -> GaussianProcess:
        """The process, fitted once for all suggestions between two reports."""
        end_N, low_N, high_N = predict_ends(data.curves)
        rows = select_rows(end_N)
        end_N = end_N[rows]
        low_N = low_N[rows]
        high_N = high_N[rows]
        y_N = normalize_losses(end_N)
        sd_N = (
            _interpolate_targets(high_N, end_N, y_N)
            - _interpolate_targets(low_N, end_N, y_N)
        ) / 2
        u_ND = np.concatenate([data.u_ND[rows], data.failed_ND])
        x_NF = features(u_ND)
        failed = len(data.failed_ND)
        worst_N = np.full(failed, y_N.max())
        y_N = np.append(y_N, worst_N)
        noise_N = np.append(sd_N**2, np.zeros(failed))
        key = x_NF.tobytes() + y_N.tobytes() + noise_N.tobytes()
        if self._fitted is None or self._fitted[0] != key:
            process = GaussianProcess(x_NF, y_N, features.groups_F, noise_N)
            self._fitted = (key, process)
        return self._fitted[1]


def predict_ends(curves: Sequence[Mapping[int, float]]) -> tuple[Array, Array, Array]:
    """The expected last loss of each trial, and one deviation to either side."""
    max_t = max(max(curve) for curve in curves)
    loss_NK = interpolate_curves(curves, list_milestones(max_t))
    model = CurveModel(loss_NK)
    mean_N, sd_N = model.predict_ends()
    low_N, end_N, high_N = (
        model.scale.unscale_losses(mean_N + n * sd_N) for n in (-1, 0, 1)
    )
    last_N = loss_NK[:, -1]
    ended_N = np.isfinite(last_N)  # to the last bit
    low_N, end_N, high_N = (
        np.where(ended_N, last_N, x_N) for x_N in (low_N, end_N, high_N)
    )
    return end_N, low_N, high_N


def _interpolate_targets(loss_N: Array, from_N: Array, y_N: Array) -> Array:
    """The targets of losses, interpolated between the known ones."""
    order = np.argsort(from_N, kind="stable")
    target_N = np.interp(loss_N, from_N[order], y_N[order])
    return np.asarray(target_N)


def measure_nearness(x_MF: Array, running_PF: Array, dims: int) -> Array:
    """How close each point is to a running trial, 0 (far) to 2 (equal): slots spread out."""
    count = len(running_PF)
    if not count or not dims:
        return np.zeros(len(x_MF))
    least = _REACH * math.sqrt(dims)
    least *= count ** (1 - 1 / dims)
    nearest_M = np.sqrt(compute_squared_distances(x_MF, running_PF).min(axis=1))
    return np.where(
        nearest_M < least,
        2 - nearest_M / least,
        0.0,
    )


def maximise(
    score: Any,
    encoding: Encoding,
    leaders_KD: Array,
    rng: np.random.Generator,
    allows: Callable[[Array], bool],
) -> Iterator[Array]:
    """Points of a high score, best first: random ones, then finer steps around the best.

    allows: whether a point may be proposed; it is slow, so few points are checked.
    """
    dims = len(encoding)
    pool = [rng.random((512, dims))]
    for step in (0.1, 0.02):
        pool.append(
            _move_points(np.repeat(leaders_KD, 32, axis=0), step, encoding, rng)
        )
    u_MD = encoding.snap(np.concatenate(pool))
    score_M = score(u_MD)
    ranked = np.argsort(-score_M, kind="stable")
    allowed = (i for i in ranked if allows(u_MD[i]))
    order = list(islice(allowed, _PROPOSED))
    starts = order[:_STARTS]
    best_SD = u_MD[starts]
    best_S = score_M[starts]
    step = 0.1
    for _ in range(12):
        tries_MD = encoding.snap(
            _move_points(np.repeat(best_SD, 16, axis=0), step, encoding, rng)
        )
        tries_SKD = tries_MD.reshape(len(best_SD), 16, dims)
        tries_SK = score(tries_MD).reshape(len(best_SD), 16)
        for s in range(len(best_SD)):
            k = _find_better(tries_SKD[s], tries_SK[s], best_S[s], allows)
            if k is not None:
                best_SD[s] = tries_SKD[s, k]
                best_S[s] = tries_SK[s, k]
        step *= 0.65
    for i in np.argsort(-best_S, kind="stable"):
        yield best_SD[i]
    for i in order:
        yield u_MD[i]


def _find_better(
    u_KD: Array, score_K: Array, than: float, allows: Callable[[Array], bool]
) -> int | None:
    """The allowed point of the highest score above `than`, or None."""
    for k in np.argsort(-score_K, kind="stable"):
        if not score_K[k] > than:
            return None
        if allows(u_KD[k]):
            return int(k)
    return None


def _move_points(
    u_MD: Array, step: float, encoding: Encoding, rng: np.random.Generator
) -> Array:
    """Points moved a little along some of their columns; choices are redrawn."""
    count, dims = u_MD.shape
    u_MD = np.where(
        np.isnan(u_MD),
        rng.random(u_MD.shape),
        u_MD,
    )
    moves_MD = rng.random((count, dims)) < max(0.5, 1 / dims)
    moves_MD[np.arange(count), rng.integers(dims, size=count)] = True
    shift_MD = step * rng.standard_normal((count, dims))
    near_MD = np.clip(u_MD + shift_MD, 0, 1)
    anew_MD = rng.random((count, dims))
    for d, column in enumerate(encoding.columns):
        if column.categories:
            moves_MD[:, d] &= rng.random(count) < 0.3
            near_MD[:, d] = anew_MD[:, d]
        elif column.centres_C is not None:  # at least to the neighbouring value
            width = 1 / len(column.centres_C)
            u_M = u_MD[:, d]
            near_M = near_MD[:, d]
            shift_M = near_M - u_M
            far_M = u_M + np.sign(shift_M) * width
            is_little_M = np.abs(shift_M) < width
            far_enough_M = np.where(is_little_M, far_M, near_M)
            near_MD[:, d] = np.clip(far_enough_M, 0, 1)
    moved: Array = np.where(moves_MD, near_MD, u_MD)
    return moved
