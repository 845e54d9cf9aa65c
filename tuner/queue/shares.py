"""How searches share a machine or cluster: pure, from what each wants to what each may run.

Places are handed out one trial at a time, each to the user who has the least for their weight, and
among that user's searches to the one that has the least. What one has is its dominant share: its
CPUs of all CPUs, or its GPUs of all GPUs, whichever is more (Ghodsi et al., Dominant Resource
Fairness, NSDI 2011). What one does not want goes to the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_SLACK = 1e-9  # of sums of fractions


class Amounts(NamedTuple):
    """CPUs and GPUs."""

    cpus: float
    gpus: float = 0.0

    def less(self, each: Amounts, times: int = 1) -> Amounts:
        """What is left once `each` is taken from it so many times."""
        return Amounts(self.cpus - times * each.cpus, self.gpus - times * each.gpus)

    def fits(self, each: Amounts) -> int:
        """How many times it holds `each`; 0 where it is less than nothing."""
        pairs = [(mine, one) for mine, one in zip(self, each, strict=True) if one > 0]
        return max(0, math.floor(min(mine / one for mine, one in pairs) + _SLACK))

    def share_of(self, all_of_it: Amounts) -> float:
        """The dominant share."""
        pairs = zip(self, all_of_it, strict=True)
        return max((mine / whole for mine, whole in pairs if whole > 0), default=0.0)


@dataclass(frozen=True, slots=True)
class Demand:
    """A search that runs, or is to start: what one trial reserves, and how many trials it wants.

    holds: how many trials it may be running at this moment; 0 where it is to start.
    """

    name: str
    user: str
    each: Amounts
    wants: int
    holds: int = 0


def least(*counts: int | None) -> int | None:
    """The least of what is known; None where nothing is."""
    return min((count for count in counts if count is not None), default=None)


def wanted(each: Amounts, capacity: Amounts, *, most: int | None = None) -> int:
    """How many trials at a time a search wants: as many as fit, and no more than `most`."""
    fits = max(1, capacity.fits(each))
    return min(fits, most or fits)


def divide(
    demands: Sequence[Demand], *, capacity: Amounts, weights: Mapping[str, float]
) -> dict[str, int]:
    """How many trials at a time each search is due: one at least, where all can have one.

    weights: of users; that of another is 1.
    """
    due, left = {demand.name: 0 for demand in demands}, capacity
    taken = {demand.user: 0.0 for demand in demands}  # for their weight

    def give(demand: Demand) -> None:
        nonlocal left
        due[demand.name] += 1
        left = left.less(demand.each)
        weight = weights.get(demand.user, 1.0)
        taken[demand.user] += demand.each.share_of(capacity) / weight

    for demand in demands:
        if demand.wants > 0 and left.fits(demand.each):
            give(demand)
    while open_ones := [
        demand for demand in demands if due[demand.name] < demand.wants and left.fits(demand.each)
    ]:
        give(min(open_ones, key=lambda d: (taken[d.user], due[d.name] * d.each.share_of(capacity))))
    return due


def limits(
    demands: Sequence[Demand], *, capacity: Amounts, weights: Mapping[str, float]
) -> dict[str, int]:
    """How many trials at a time each search may have from now on.

    Nobody gets what another still holds: one that has too much gives it up as its trials end, and
    only then do others get more. 0: one that is to start cannot yet. One that runs keeps a trial.
    """
    due = divide(demands, capacity=capacity, weights=weights)
    free, found = capacity, {}
    for demand in demands:
        free = free.less(demand.each, demand.holds)
    for demand in demands:
        more = min(max(0, due[demand.name] - demand.holds), free.fits(demand.each))
        free = free.less(demand.each, more)
        limit = demand.holds + more if more else min(demand.holds, due[demand.name])
        found[demand.name] = max(limit, 1 if demand.holds else 0)
    return found


@dataclass(frozen=True, slots=True)
class Waiting:
    """An entry that waits.

    each: what one of its trials reserves. most: how many trials at a time it may run; None: any.
    """

    name: str
    user: str
    added: float
    each: Amounts
    most: int | None = None

    def to_start(self, capacity: Amounts) -> Demand:
        """What it wants as it is to start."""
        return Demand(self.name, self.user, self.each, wanted(self.each, capacity, most=self.most))


def next_to_start(
    waiting: Sequence[Waiting],
    running: Sequence[Demand],
    *,
    at_once: int,
    capacity: Amounts,
    weights: Mapping[str, float],
) -> Waiting | None:
    """The entry whose turn it is; None where there is none, or it has to wait for room.

    The user comes first who has the fewest searches running for their weight; of one user's
    entries, and of equals, the oldest. Nobody overtakes one that waits for room.
    """
    if not waiting or len(running) >= at_once:
        return None
    searches = Counter(demand.user for demand in running)
    first = min(
        waiting, key=lambda w: (searches[w.user] / weights.get(w.user, 1.0), w.added, w.name)
    )
    left = capacity
    for demand in running:
        left = left.less(demand.each)
    if running and not left.fits(first.each):
        return None
    return first
