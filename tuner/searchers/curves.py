"""Comparing trials of different age: values are only ever compared at equal epochs."""

# N trials

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = Mapping[int, float]  # epoch -> loss, finite, at least one
_LARGEST = 1e100  # beyond it differences are not finite


def standings(curves: Sequence[Curve]) -> Array:
    """How each of the N trials stands, lower is better.

    Where all ended at one epoch that is their loss there. Else it is the balance of a tournament,
    -1 (beats all) to 1: two trials meet at the last epoch that both have come to. So one that was
    stopped at epoch 2 is neither worse nor better than one at epoch 10 merely for its age.
    """
    ends_N = np.array([max(curve) for curve in curves])
    losses_N = np.array([curve[max(curve)] for curve in curves])
    if len(curves) == 0 or (ends_N == ends_N[0]).all():
        return losses_N
    balance_N, met_N = np.zeros(len(curves)), np.zeros(len(curves))
    for end in sorted({int(e) for e in ends_N}):
        here = np.flatnonzero(ends_N == end)
        later = [i for i, curve in enumerate(curves) if ends_N[i] > end and end in curve]
        mine = losses_N[here]
        theirs = np.array([curves[i][end] for i in later])
        against_later = np.sign(mine[:, None] - theirs[None, :])
        balance_N[here] += np.sign(mine[:, None] - mine[None, :]).sum(1) + against_later.sum(1)
        balance_N[later] -= against_later.sum(0)
        met_N[here] += len(here) - 1 + len(later)
        met_N[later] += len(here)
    return np.asarray(balance_N / np.maximum(met_N, 1))


def ends(curves: Sequence[Curve]) -> Array:
    """What each of the N trials would have at the highest epoch that any has come to.

    From one epoch to the next a trial is taken to change as the trials that reported both did, by
    their median: of the logarithm where every loss is above 0, else of the loss itself.
    """
    epochs = sorted({epoch for curve in curves for epoch in curve})
    told_NE = np.array([[curve.get(epoch, np.nan) for epoch in epochs] for curve in curves])
    loss_NE = np.clip(told_NE, -_LARGEST, _LARGEST)
    if np.nanmin(loss_NE) > 0:
        loss_NE = np.log(loss_NE)
    steps_NE = np.diff(loss_NE, axis=1)
    told_E = ~np.isnan(steps_NE).all(axis=0)
    change_E = np.zeros(len(epochs))  # from each epoch to the last
    change_E[:-1][told_E] = np.nanmedian(steps_NE[:, told_E], axis=0)
    change_E = change_E[::-1].cumsum()[::-1]
    last_N = [epochs.index(max(curve)) for curve in curves]
    return np.asarray(loss_NE[np.arange(len(curves)), last_N] + change_E[last_N])


def milestones(curve: Curve) -> Iterator[int]:
    """Epochs that tell most of a curve: 1, 3, 9, ... and the last one."""
    epoch, end = 1, max(curve)
    while epoch < end:
        if epoch in curve:
            yield epoch
        epoch *= 3
    yield end
