"""Predicts the ends of learning curves, with their uncertainty.

Curves are read at milestones, a constant factor apart. Each step is a Bayesian linear regression on
the value and its last change; predictions chain the steps. Stopping depends on these inputs alone,
and so does not bias it. The steps of a trial depend on each other, so that chains are too sure of
themselves: by how much is measured, each number of steps ahead, over all trials that came so far.
"""

# N trials, K milestones, C coefficients of a step

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuner.spec.space.encoding import Array

_FACTOR = 1.7  # from one milestone to the next
_PRIOR = 4.0  # trials that the variance of the previous step counts for
_VARIANCE = 0.25  # expected of a step, for curves of unit variance
# Expected size of a step's weights, for curves of unit variance
_WEIGHTS = (0.1, 0.25, 0.25)
# First quartiles in the scale's unit, at most: divergent trials do not matter
_WIDEST = 10.0
# By how much chains are expected to be, and trials that this counts for
_TOO_SURE = (1.5, 30.0)
_CAPPED = 4.0  # deviations that a single error counts for at most
_LARGEST = 1e100  # loss: beyond it differences are not finite
_LEAST = 1e-12


def list_milestones(max_t: int) -> tuple[int, ...]:
    """The epochs at which curves are read: 1, `max_t`, and some between."""
    steps = math.ceil(math.log(max_t) / math.log(_FACTOR))
    return tuple(
        sorted(
            {round(max_t ** (k / max(steps, 1))) for k in range(steps + 1)} | {max_t}
        )
    )


def interpolate_curves(
    curves: Sequence[Mapping[int, float]], epochs: Sequence[int]
) -> Array:
    """The losses of N non-empty curves at K milestones; NaN after a curve's end.

    Missing values are interpolated over log(epoch); an end counts at the nearest milestone.
    """
    log_K = np.log(epochs)
    loss_NK = np.full((len(curves), len(epochs)), np.nan)
    for loss_K, curve in zip(loss_NK, curves, strict=True):
        epochs_N = sorted(curve)
        end = int(np.abs(log_K - math.log(epochs_N[-1])).argmin()) + 1
        losses = [curve[epoch] for epoch in epochs_N]
        loss_K[:end] = np.interp(log_K[:end], np.log(epochs_N), losses)
    return loss_NK


@dataclass(frozen=True, slots=True)
class Scale:
    """log(1 + distance to the least loss), standardised: unit, sign and outliers do not matter."""

    least: float
    unit: float
    centre: float
    spread: float

    @classmethod
    def fit(cls, loss_NK: Array) -> Scale:
        """The scale of these losses; NaN is ignored."""
        above = clip_losses(loss_NK[np.isfinite(loss_NK)])
        least = float(above.min())
        above = above - least
        low, high = np.quantile(above, [0.25, 0.75])
        units = (float(min(high, _WIDEST * low)), float(above.mean()), 1.0)
        # Dividing by it is finite
        unit = next(unit for unit in units if unit > 1 / _LARGEST)
        log = np.log1p(above / unit)
        return cls(least, unit, float(log.mean()), float(log.std()) or 1.0)

    def __call__(self, loss: Array) -> Array:
        log = np.log1p((clip_losses(loss) - self.least) / self.unit)
        return np.asarray((log - self.centre) / self.spread)

    def unscale_losses(self, scaled: Array) -> Array:
        """The losses that have these values."""
        log = np.clip(
            self.centre + self.spread * scaled, -math.log(_LARGEST), math.log(_LARGEST)
        )
        return np.asarray(self.least + self.unit * np.expm1(log))


class CurveModel:
    """Fitted to the losses of N trials at K milestones; NaN after a trial's end."""

    def __init__(self, loss_NK: Array) -> None:
        self.scale = Scale.fit(loss_NK)
        self._y_NK = self.scale(loss_NK)
        self._steps = _fit_steps(self._y_NK)
        self._widening_K = self._backtest()

    def predict_ends(self) -> tuple[Array, Array]:
        """The predicted ends of the trials on `scale`, and how far most are away (68 %)."""
        reached_N = np.isfinite(self._y_NK).sum(axis=1)
        mean_N = self._y_NK[:, -1].copy()
        sd_N = np.zeros(len(self._y_NK))
        for k in range(self._y_NK.shape[1] - 1):
            rows = reached_N == k + 1
            if rows.any():
                *_, (mean_N[rows], sd_N[rows]) = self._predict_steps(k, rows)
                sd_N[rows] *= self._widening_K[-1 - k]
        return mean_N, sd_N

    def _predict_steps(
        self, start: int, rows: NDArray[np.bool_]
    ) -> Iterator[tuple[Array, Array]]:
        """The mean and the deviation at each milestone after `start`, of the trials of `rows`."""
        mean_N = self._y_NK[rows, start]
        change_N = mean_N - self._y_NK[rows, start - 1] if start else None
        # Of the value and of its latest change
        covariance_N = np.zeros((len(mean_N), 2, 2))
        for k, step in enumerate(self._steps[start:], start):
            x_NC = _build_inputs(mean_N, change_N if k else None)
            change_N = x_NC @ step.weights_C
            mean_N = mean_N + change_N
            unsure_N = step.variance + np.einsum(
                "nc,cd,nd->n", x_NC, step.covariance_CC, x_NC
            )
            slopes = step.weights_C[1:] if k else [step.weights_C[1], 0.0]
            f = np.array([1.0, 0.0]) * [[1.0], [0.0]] + slopes
            covariance_N = f @ covariance_N @ f.T + unsure_N[:, None, None]
            yield mean_N, np.sqrt(covariance_N[:, 0, 0])

    def _backtest(self) -> Array:
        """How many times the chains' deviations the errors are, for each number of steps ahead."""
        count = self._y_NK.shape[1]
        squares_K = np.zeros(count)
        seen_K = np.zeros(count)
        for start in range(count - 1):
            rows = np.isfinite(self._y_NK[:, start])
            for ahead, (mean_N, sd_N) in enumerate(self._predict_steps(start, rows), 1):
                error_N = np.abs(self._y_NK[rows, start + ahead] - mean_N) / sd_N
                error_N = np.minimum(error_N[np.isfinite(error_N)], _CAPPED)
                squares_K[ahead] += error_N @ error_N
                seen_K[ahead] += len(error_N)
        squared_K = np.full(count, _TOO_SURE[0] ** 2)
        for ahead in range(1, count):  # little is known of many steps: much as of fewer
            # Each is seen from several milestones
            trials = seen_K[ahead] / (count - ahead)
            mean = squares_K[ahead] / max(seen_K[ahead], 1.0)
            expected = _TOO_SURE[1] * squared_K[ahead - 1]
            squared_K[ahead] = (expected + trials * mean) / (_TOO_SURE[1] + trials)
        return np.asarray(np.sqrt(np.maximum(squared_K, 1.0)))


@dataclass(frozen=True, slots=True)
class _Step:
    """From one milestone to the next: the weights, their covariance, the residuals' variance."""

    weights_C: Array
    covariance_CC: Array
    variance: float


def _fit_steps(y_NK: Array) -> list[_Step]:
    """The regressions of all steps; a step that few trials have made is uncertain."""
    data = [_extract_step(y_NK, k) for k in range(y_NK.shape[1] - 1)]
    squares = [_compute_squared_residuals(x_NC, change_N) for x_NC, change_N in data]
    seen = sum(len(change_N) for _, change_N in data)
    variance = (_PRIOR * _VARIANCE + sum(squares)) / (_PRIOR + seen)
    steps = []
    for (x_NC, change_N), square in zip(data, squares, strict=True):
        variance = (_PRIOR * variance + square) / (_PRIOR + len(change_N)) + _LEAST
        precision_C = np.array(_WEIGHTS[: x_NC.shape[1]]) ** -2.0
        covariance_CC = np.asarray(
            np.linalg.inv(x_NC.T @ x_NC / variance + np.diag(precision_C))
        )
        weights_C = np.asarray(covariance_CC @ (x_NC.T @ change_N) / variance)
        steps.append(_Step(weights_C, covariance_CC, variance))
    return steps


def _extract_step(y_NK: Array, k: int) -> tuple[Array, Array]:
    """The inputs of the step after milestone `k`, and the changes in it."""
    change_N = y_NK[:, k + 1] - y_NK[:, k]
    rows = np.isfinite(change_N)
    before_N = y_NK[rows, k] - y_NK[rows, k - 1] if k else None
    return _build_inputs(y_NK[rows, k], before_N), change_N[rows]


def _compute_squared_residuals(x_NC: Array, change_N: Array) -> float:
    """The sum of the squared residuals of a regression with little regularisation."""
    ridge_CC = 0.1 * np.eye(x_NC.shape[1])
    weights_C = np.linalg.solve(x_NC.T @ x_NC + ridge_CC, x_NC.T @ change_N)
    return float(((change_N - x_NC @ weights_C) ** 2).sum())


def _build_inputs(y_N: Array, change_N: Array | None) -> Array:
    columns = [np.ones_like(y_N), y_N]
    return np.stack(columns if change_N is None else [*columns, change_N], axis=1)


def clip_losses(loss: ArrayLike) -> Array:
    """Losses within what can be subtracted."""
    return np.asarray(np.clip(np.asarray(loss, dtype=float), -_LARGEST, _LARGEST))
