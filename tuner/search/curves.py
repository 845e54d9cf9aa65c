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
    milestones = {max_t}
    for k in range(steps + 1):
        share = k / max(steps, 1)
        milestones.add(round(max_t**share))
    return tuple(sorted(milestones))


def interpolate_curves(
    curves: Sequence[Mapping[int, float]],
    epochs: Sequence[int],
) -> Array:
    """The losses of N non-empty curves at K milestones; NaN after a curve's end.

    Missing values are interpolated over log(epoch); an end counts at the nearest milestone.
    """
    log_K = np.log(epochs)
    loss_NK = np.full((len(curves), len(epochs)), np.nan)
    for loss_K, curve in zip(loss_NK, curves, strict=True):
        epochs_N = sorted(curve)
        distance_K = np.abs(log_K - math.log(epochs_N[-1]))
        end = int(distance_K.argmin()) + 1
        losses = [curve[epoch] for epoch in epochs_N]
        loss_K[:end] = np.interp(
            log_K[:end],
            np.log(epochs_N),
            losses,
        )
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
        units = (
            float(min(high, _WIDEST * low)),
            float(above.mean()),
            1.0,
        )
        # Dividing by it is finite
        unit = next(unit for unit in units if unit > 1 / _LARGEST)
        log = np.log1p(above / unit)
        return cls(
            least,
            unit,
            centre=float(log.mean()),
            spread=float(log.std()) or 1.0,
        )

    def __call__(self, loss: Array) -> Array:
        above = clip_losses(loss) - self.least
        log = np.log1p(above / self.unit)
        return np.asarray((log - self.centre) / self.spread)

    def unscale_losses(self, scaled: Array) -> Array:
        """The losses that have these values."""
        limit = math.log(_LARGEST)
        log = np.clip(
            self.centre + self.spread * scaled,
            -limit,
            limit,
        )
        above = self.unit * np.expm1(log)
        return np.asarray(self.least + above)


class CurveModel:
    """Fitted to the losses of N trials at K milestones; NaN after a trial's end."""

    def __init__(self, loss_NK: Array) -> None:
        self.scale = Scale.fit(loss_NK)
        self._y_NK = self.scale(loss_NK)
        self._steps = _fit_steps(self._y_NK)
        self._widening_K = self._backtest()

    def predict_ends(self) -> tuple[Array, Array]:
        """The predicted ends of the trials on `scale`, and how far most are away (68 %)."""
        count, milestones = self._y_NK.shape
        reached_N = np.isfinite(self._y_NK).sum(axis=1)
        mean_N = self._y_NK[:, -1].copy()
        sd_N = np.zeros(count)
        for k in range(milestones - 1):
            rows = reached_N == k + 1
            if rows.any():
                *_, end = self._predict_steps(k, rows)
                mean_N[rows], sd_N[rows] = end
                sd_N[rows] *= self._widening_K[-1 - k]
        return mean_N, sd_N

    def _predict_steps(
        self,
        start: int,
        rows: NDArray[np.bool_],
    ) -> Iterator[tuple[Array, Array]]:
        """The mean and the deviation at each milestone after `start`, of the trials of `rows`."""
        mean_N = self._y_NK[rows, start]
        change_N = None
        if start:
            change_N = mean_N - self._y_NK[rows, start - 1]
        # Of the value and of its latest change
        covariance_N = np.zeros((len(mean_N), 2, 2))
        for k, step in enumerate(self._steps[start:], start):
            x_NC = _build_inputs(mean_N, change_N if k else None)
            change_N = x_NC @ step.weights_C
            mean_N = mean_N + change_N
            unsure_N = np.einsum(
                "nc,cd,nd->n",
                x_NC,
                step.covariance_CC,
                x_NC,
            )
            unsure_N += step.variance
            slopes = step.weights_C[1:] if k else [step.weights_C[1], 0.0]
            f = np.array(
                [
                    [1.0, 0.0],
                    [0.0, 0.0],
                ]
            )
            f += slopes
            covariance_N = f @ covariance_N @ f.T
            covariance_N += unsure_N[:, None, None]
            sd_N = np.sqrt(covariance_N[:, 0, 0])
            yield mean_N, sd_N

    def _backtest(self) -> Array:
        """How many times the chains' deviations the errors are, for each number of steps ahead."""
        count = self._y_NK.shape[1]
        squares_K = np.zeros(count)
        seen_K = np.zeros(count)
        for start in range(count - 1):
            rows = np.isfinite(self._y_NK[:, start])
            steps = self._predict_steps(start, rows)
            for ahead, (mean_N, sd_N) in enumerate(steps, 1):
                error_N = np.abs(self._y_NK[rows, start + ahead] - mean_N)
                error_N /= sd_N
                error_N = error_N[np.isfinite(error_N)]
                error_N = np.minimum(error_N, _CAPPED)
                squares_K[ahead] += error_N @ error_N
                seen_K[ahead] += len(error_N)
        too_sure, weight = _TOO_SURE
        squared_K = np.full(count, too_sure**2)
        for ahead in range(1, count):  # little is known of many steps: much as of fewer
            # Each is seen from several milestones
            trials = seen_K[ahead] / (count - ahead)
            mean = squares_K[ahead] / max(seen_K[ahead], 1.0)
            total = weight * squared_K[ahead - 1]
            total += trials * mean
            squared_K[ahead] = total / (weight + trials)
        squared_K = np.maximum(squared_K, 1.0)
        return np.asarray(np.sqrt(squared_K))


@dataclass(frozen=True, slots=True)
class _Step:
    """From one milestone to the next: the weights, their covariance, the residuals' variance."""

    weights_C: Array
    covariance_CC: Array
    variance: float


def _fit_steps(y_NK: Array) -> list[_Step]:
    """The regressions of all steps; a step that few trials have made is uncertain."""
    data = [_extract_step(y_NK, k) for k in range(y_NK.shape[1] - 1)]
    squares = [_compute_squared_residuals(*step) for step in data]
    seen = sum(len(change_N) for _, change_N in data)
    variance = _PRIOR * _VARIANCE + sum(squares)
    variance /= _PRIOR + seen
    steps = []
    for (x_NC, change_N), square in zip(data, squares, strict=True):
        variance = _PRIOR * variance + square
        variance /= _PRIOR + len(change_N)
        variance += _LEAST
        precision_C = np.array(_WEIGHTS[: x_NC.shape[1]]) ** -2.0
        precision_CC = x_NC.T @ x_NC / variance
        precision_CC += np.diag(precision_C)
        covariance_CC = np.asarray(np.linalg.inv(precision_CC))
        weights_C = covariance_CC @ (x_NC.T @ change_N)
        weights_C /= variance
        step = _Step(weights_C, covariance_CC, variance)
        steps.append(step)
    return steps


def _extract_step(y_NK: Array, k: int) -> tuple[Array, Array]:
    """The inputs of the step after milestone `k`, and the changes in it."""
    change_N = y_NK[:, k + 1] - y_NK[:, k]
    rows = np.isfinite(change_N)
    y_N = y_NK[rows, k]
    before_N = None
    if k:
        before_N = y_N - y_NK[rows, k - 1]
    x_NC = _build_inputs(y_N, before_N)
    return x_NC, change_N[rows]


def _compute_squared_residuals(x_NC: Array, change_N: Array) -> float:
    """The sum of the squared residuals of a regression with little regularisation."""
    ridge_CC = 0.1 * np.eye(x_NC.shape[1])
    weights_C = np.linalg.solve(
        x_NC.T @ x_NC + ridge_CC,
        x_NC.T @ change_N,
    )
    residual_N = change_N - x_NC @ weights_C
    return float((residual_N**2).sum())


def _build_inputs(y_N: Array, change_N: Array | None) -> Array:
    columns = [np.ones_like(y_N), y_N]
    if change_N is not None:
        columns.append(change_N)
    return np.stack(columns, axis=1)


def clip_losses(loss: ArrayLike) -> Array:
    """Losses within what can be subtracted."""
    clipped = np.clip(
        np.asarray(loss, dtype=float),
        -_LARGEST,
        _LARGEST,
    )
    return np.asarray(clipped)
