"""Comparing trials of different age: what the loss of each would be at one common epoch.

Values are only ever compared at equal epochs. A trial that ended early is carried forward epoch by
epoch, along what the trials that went on show of how losses at one epoch map to those at the next.
"""

# N trials

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = Mapping[int, float]  # epoch -> loss, finite


def aligned(curves: Sequence[Curve]) -> tuple[Array, Array]:
    """(loss, how far it was carried forward as a share of all epochs) of each of the N trials.

    Every curve has at least one epoch. Where all ended at one epoch these are their last losses.
    """
    ends = np.array([max(curve) for curve in curves])
    last = int(ends.max())
    losses_N = np.array([curve[max(curve)] for curve in curves])
    epochs = sorted({int(e) for e in ends})
    age_N = ends.astype(float)
    for here, there in pairwise(epochs):
        both = [(curve[here], curve[there]) for curve in curves if here in curve and there in curve]
        losses_N[age_N == here] = _carried(losses_N[age_N == here], both)
        age_N[age_N == here] = there
    return losses_N, (last - ends) / last


def _carried(losses_N: Array, both: list[tuple[float, float]]) -> Array:
    """Losses of one epoch moved to a later one, by pairs that have both."""
    if not both:
        return losses_N
    before, after = np.array(both).T
    shift = np.median(after - before)
    return np.asarray(losses_N + shift)
