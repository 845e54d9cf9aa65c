"""Whether a trial's memory only grows, as its reports of `memory_mib` tell it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

EPOCHS = 5  # successive epochs that have to grow
LEAST_MIB = 1.0  # the growth of one epoch that counts
SUSPECT = (
    "most often tensors with their graph, as in a running loss that adds up `loss` "
    "where `loss.detach()` would do, or outputs gathered in a list"
)


def steady_growth(samples_mib: Sequence[float]) -> float | None:
    """MiB an epoch by which memory grew, where each of the last epochs grew; else None.

    `samples_mib` holds one value at the end of each epoch. The first is left out: it is higher
    than nothing because of all that is made once.

    >>> steady_growth([100, 300, 320, 340, 362, 380, 400])
    20.0
    >>> steady_growth([100, 300, 320, 340, 340, 380, 400]) is None
    True
    """
    last = samples_mib[1:][-EPOCHS - 1 :]
    grown = [after - before for before, after in pairwise(last)]
    if len(grown) < EPOCHS or min(grown) < LEAST_MIB:
        return None
    return sum(grown) / EPOCHS


def first_growth(samples_mib: Sequence[float]) -> float | None:
    """`steady_growth` at the first epoch after which there was one; None where there never was."""
    ends = range(EPOCHS + 2, len(samples_mib) + 1)
    found = (steady_growth(samples_mib[:end]) for end in ends)
    return next((growth for growth in found if growth is not None), None)
