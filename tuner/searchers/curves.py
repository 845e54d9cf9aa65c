"""Comparing trials of different age: values are only ever compared at equal epochs."""

# N trials

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = Mapping[int, float]  # epoch -> loss, finite, at least one


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


def milestones(curve: Curve) -> Iterator[int]:
    """Epochs that tell most of a curve: 1, 3, 9, ... and the last one."""
    epoch, end = 1, max(curve)
    while epoch < end:
        if epoch in curve:
            yield epoch
        epoch *= 3
    yield end
