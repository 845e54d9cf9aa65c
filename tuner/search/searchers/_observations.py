"""Trials as a searcher sees them, compared at equal epochs, and the input of models."""

# N trials with a loss, P trials without one yet, D columns of the encoding

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.search.curves import clip_losses
from tuner.search.goals import compute_goal_weights, scalarize_losses
from tuner.spec.sections import Objective
from tuner.spec.space.domains import Value
from tuner.spec.space.encoding import Array, Encoding
from tuner.spec.space.spaces import compute_config_key

RUNNING = "running"
ENDED = "ended"
FAILED = "failed"
LOST = "lost"

Curve = Mapping[int, float]  # epoch -> loss, finite, at least one

_TIE = 1e-9  # share of a difference that orders equal values


@dataclass(slots=True)
class Observation:
    """One trial.

    origin: initial, random, model, resumed, or warm. reports: epoch -> finite value; 0: a complete
    trial. losses: epoch -> the loss of each goal, if there are several. status: running, ended,
    failed (avoid its config), or lost (nothing was learned).
    """

    config: dict[str, Value]
    origin: str
    status: str = RUNNING
    reports: dict[int, float] = field(default_factory=dict)
    losses: dict[int, tuple[float, ...]] | None = None
    broken: bool = False  # its latest report was not a finite number
    # A report, which is not among `reports`, did not keep the limits
    beyond: bool = False
    _key: str | None = field(default=None, repr=False, compare=False)
    _u_D: tuple[float, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        """`compute_config_key` of its config, which never changes."""
        if self._key is None:
            self._key = compute_config_key(self.config)
        return self._key

    @property
    def is_beyond(self) -> bool:
        """Whether it has reported, and no report keeps the limits."""
        return self.beyond and not self.reports and self.status != LOST

    def encode(self, encoding: Encoding) -> tuple[float, ...]:
        """The point of its config in the search's `encoding`; a tuple saves memory."""
        if self._u_D is None:
            self._u_D = tuple(encoding.encode(self.config).tolist())
        return self._u_D

    def add(self, value: Any, epoch: int = 0) -> None:
        """Add the value of an epoch, or of the complete trial."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            # An integer that no float can hold
            number = math.nan
        self.broken = not math.isfinite(number)
        if not self.broken:
            self.reports[epoch] = number

    def end(self, *, error: bool = False, lost: bool = False) -> None:
        """End it; if its last report was not a finite number, its config is at fault."""
        self.status = FAILED if error or self.broken else LOST if lost else ENDED


@dataclass(frozen=True, slots=True)
class ModelInput:
    """N trials with reports, and those without; less is better.

    loss_N: see `estimate_final_losses`. failed_ND: these count as the worst, and so do those
    without a report within the limits, `beyond` in number. pending_PD: running, without a report.
    allows: or None. favour: what priors add to the logarithm of each point's merit, or None.
    """

    u_ND: Array
    loss_N: Array
    curves: list[dict[int, float]]
    live_N: NDArray[np.bool_]
    failed_ND: Array
    pending_PD: Array
    beyond: int = 0
    allows: Callable[[Array], bool] = lambda u_D: True
    favour: Callable[[Array], Array | float] = lambda u_MD: 0.0

    @property
    def stops_early(self) -> bool:
        """Whether a trial has ended at an earlier epoch than another has reached."""
        ends_N = np.array([max(curve) for curve in self.curves])
        return bool((ends_N[~self.live_N] < ends_N.max(initial=0)).any())


def build_model_input(
    trials: Sequence[Observation],
    encoding: Encoding,
    objective: Objective,
    max_t: int | None,
    number: int,
) -> ModelInput:
    """The input of a model for trial `number`.

    max_t: epochs of a complete trial; None: the most that one reported.
    """
    reported = [trial for trial in trials if trial.status != FAILED and trial.reports]
    whole = max_t or max(
        (max(trial.reports) for trial in trials if trial.reports), default=1
    )
    sign = objective.sign
    if objective.others:
        curves = _scalarize_curves(
            reported, compute_goal_weights(number, len(objective.goals))
        )
    else:
        curves = [_convert_to_losses(trial.reports, sign, whole) for trial in reported]
    return ModelInput(
        _encode_points(reported, encoding),
        estimate_final_losses(curves),
        curves,
        np.array([trial.status == RUNNING for trial in reported], dtype=bool),
        _encode_points(
            [t for t in trials if t.status == FAILED or t.is_beyond], encoding
        ),
        _encode_points(
            [t for t in trials if t.status == RUNNING and not (t.reports or t.beyond)],
            encoding,
        ),
        sum(trial.is_beyond for trial in trials),
    )


def _scalarize_curves(
    trials: Sequence[Observation], weight_G: Array
) -> list[dict[int, float]]:
    """The curves of trials with several goals, by these weights."""
    losses = [trial.losses or {} for trial in trials]
    rows = [loss_G for by_epoch in losses for loss_G in by_epoch.values()]
    if not rows:
        return []
    distances = iter(scalarize_losses(np.array(rows), weight_G).tolist())
    return [{epoch: next(distances) for epoch in by_epoch} for by_epoch in losses]


def _convert_to_losses(
    reports: dict[int, float], sign: int, whole: int
) -> dict[int, float]:
    """The losses of `reports`; the same object if nothing changes, to save memory."""
    if sign == 1 and 0 not in reports:
        return reports
    return {epoch or whole: sign * value for epoch, value in reports.items()}


def _encode_points(trials: Sequence[Observation], encoding: Encoding) -> Array:
    points = [trial.encode(encoding) for trial in trials]
    return encoding.snap(np.array(points).reshape(len(points), len(encoding)))


def estimate_final_losses(curves: Sequence[Curve]) -> Array:
    """The expected loss of N trials at the last epoch that any has reached.

    Trials that ended earlier are mapped by isotonic regression over those that went on; better or
    worse ones come just outside. So age alone makes none better.
    """
    ends_N = np.array([max(curve) for curve in curves], dtype=int)
    last_N = clip_losses([curve[max(curve)] for curve in curves])
    expected_N = last_N.copy()
    for end in sorted({int(e) for e in ends_N}, reverse=True)[1:]:
        here = np.flatnonzero(ends_N == end)
        later = np.flatnonzero(ends_N > end)
        met = np.array([i for i in later.tolist() if end in curves[i]], dtype=int)
        if len(met):
            then = clip_losses([curves[i][end] for i in met.tolist()])
            expected_N[here] = _extrapolate_losses(last_N[here], then, expected_N[met])
        else:  # none reported this epoch: the ranks are matched
            shares = np.argsort(np.argsort(last_N[here])) / max(len(here) - 1, 1)
            expected_N[here] = np.quantile(expected_N[later], shares)
    return expected_N


def _extrapolate_losses(loss_N: Array, then: Array, expected: Array) -> Array:
    """The expected losses of trials that ended with `loss_N`, by those with `then` there."""
    from scipy.optimize import isotonic_regression  # takes 0.3 s

    at, which, counts = np.unique(then, return_inverse=True, return_counts=True)
    means = np.bincount(which, weights=expected) / counts
    fitted = isotonic_regression(means, weights=counts).x
    beyond_N = loss_N - np.clip(loss_N, at[0], at[-1])
    continued: Array = np.interp(loss_N, at, fitted) + _TIE * beyond_N
    return continued
