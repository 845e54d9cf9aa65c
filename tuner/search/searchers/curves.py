"""Comparing trials of different age: values are only ever compared at equal epochs."""

# N trials

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

Array = NDArray[np.float64]
Curve = Mapping[int, float]  # epoch -> loss, finite, at least one

_TIE = 1e-9  # of a difference: orders what would stand equal
_LARGEST = 1e100  # of a loss: beyond it differences are not finite


def standings(curves: Sequence[Curve]) -> Array:
    """The loss at the last epoch that each of the N trials is expected to come to; less is better.

    A trial that ended there stands by its own loss. One that ended before stands where those stand
    that went on from about its loss at that epoch: their standings are fitted by a function that
    never falls (isotonic regression). One better, or worse, than all of them there stands just
    before the best, or behind the worst. So nothing stands better or worse merely for its age.
    """
    ends_N = np.array([max(curve) for curve in curves], dtype=int)
    own_N = _bounded([curve[max(curve)] for curve in curves])
    standing_N = own_N.copy()
    for end in sorted({int(e) for e in ends_N}, reverse=True)[1:]:
        here, later = np.flatnonzero(ends_N == end), np.flatnonzero(ends_N > end)
        met = np.array([i for i in later.tolist() if end in curves[i]], dtype=int)
        if len(met):
            then = _bounded([curves[i][end] for i in met.tolist()])
            standing_N[here] = _continued(own_N[here], then, standing_N[met])
        else:  # nobody tells of this epoch: the best stands with the best, the worst with the worst
            shares = np.argsort(np.argsort(own_N[here])) / max(len(here) - 1, 1)
            standing_N[here] = np.quantile(standing_N[later], shares)
    return standing_N


def _continued(loss_N: Array, then: Array, standing: Array) -> Array:
    """Where trials stand that ended with `loss_N`, by those with loss `then` that went on."""
    at, which, counts = np.unique(then, return_inverse=True, return_counts=True)
    means = np.bincount(which, weights=standing) / counts
    fitted = isotonic_regression(means, weights=counts).x
    beyond_N = loss_N - np.clip(loss_N, at[0], at[-1])
    found: Array = np.interp(loss_N, at, fitted) + _TIE * beyond_N
    return found


def _bounded(losses: ArrayLike) -> Array:
    """The losses, within what can be subtracted."""
    return np.asarray(np.clip(np.array(losses, dtype=float), -_LARGEST, _LARGEST))


def milestones(curve: Curve) -> Iterator[int]:
    """Epochs that tell most of a curve: 1, 3, 9, ... and the last one."""
    epoch, end = 1, max(curve)
    while epoch < end:
        if epoch in curve:
            yield epoch
        epoch *= 3
    yield end
