"""How searches share the CPUs and GPUs of a machine or cluster.

Trials are handed out singly, each to the user who has the least for their weight, and among that
user's searches to the one that has the least. What one has is its dominant share: its CPUs of all
CPUs, or its GPUs of all GPUs, whichever is more (Ghodsi et al., Dominant Resource Fairness, NSDI
2011). What one does not want goes to the others.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tuner.places import LOCAL
from tuner.spec.validation import Machine
from tuner.trial.gpus import VISIBLE

_SLACK = 1e-9  # of sums of fractions


class Amounts(NamedTuple):
    """CPUs and GPUs of a trial: a share of one GPU, or whole ones."""

    cpus: float
    gpus: float = 0.0


class Room(NamedTuple):
    """CPUs, and what is free of each GPU."""

    cpus: float
    gpus: tuple[float, ...] = ()

    def less(self, each: Amounts, times: int = 1) -> Room:
        """What is left once `each` is taken from it so many times.

        A share lies where it leaves the least; below 0 is what was promised and is not there.
        """
        gpus = sorted(self.gpus)
        for _ in range(times if gpus and each.gpus else 0):
            if each.gpus >= 1:
                count = int(each.gpus)
                gpus[-count:] = [free - 1 for free in gpus[-count:]]
            else:
                fitting = (n for n, free in enumerate(gpus) if free + _SLACK >= each.gpus)
                gpus[next(fitting, -1)] -= each.gpus
            gpus.sort()
        return Room(self.cpus - times * each.cpus, tuple(gpus))

    def fits(self, each: Amounts) -> int:
        """How many times it holds `each`; 0 where it is less than nothing."""
        counts = [self.cpus / each.cpus] if each.cpus else []
        if each.gpus:
            part = min(each.gpus, 1)
            parts = sum(max(0, math.floor(free / part + _SLACK)) for free in self.gpus)
            counts.append(parts / max(1, int(each.gpus)))
        return max(0, math.floor(min(counts) + _SLACK))

    def share_of(self, each: Amounts) -> float:
        """The dominant share that `each` has of it."""
        pairs = (each.cpus, self.cpus), (each.gpus, len(self.gpus))
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


def wanted(each: Amounts, capacity: Room, *, most: int | None = None) -> int:
    """How many trials at a time a search wants: as many as fit, and no more than `most`."""
    fits = max(1, capacity.fits(each))
    return min(fits, most or fits)


def divide(
    demands: Sequence[Demand], *, capacity: Room, weights: Mapping[str, float]
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
        taken[demand.user] += capacity.share_of(demand.each) / weight

    for demand in demands:
        if demand.wants > 0 and left.fits(demand.each):
            give(demand)
    while open_ones := [
        demand for demand in demands if due[demand.name] < demand.wants and left.fits(demand.each)
    ]:
        give(min(open_ones, key=lambda d: (taken[d.user], due[d.name] * capacity.share_of(d.each))))
    return due


def limits(
    demands: Sequence[Demand], *, capacity: Room, unused: Room, weights: Mapping[str, float]
) -> dict[str, int]:
    """How many trials at a time each search may have from now on.

    Nobody gets what another still holds: one that has too much gives it up as its trials end, and
    only then do others get more. 0: one that is to start cannot yet. One that runs keeps a trial.
    unused: what no process uses now; there, what is held may lie less closely together.
    """
    due = divide(demands, capacity=capacity, weights=weights)
    free, found = capacity, {}
    for demand in sorted(demands, key=lambda demand: -demand.each.gpus):
        free = free.less(demand.each, demand.holds)
    for demand in demands:
        fits = min(free.fits(demand.each), unused.fits(demand.each))
        more = min(max(0, due[demand.name] - demand.holds), fits)
        free, unused = free.less(demand.each, more), unused.less(demand.each, more)
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

    def to_start(self, capacity: Room) -> Demand:
        """What it wants as it is to start."""
        return Demand(self.name, self.user, self.each, wanted(self.each, capacity, most=self.most))


def next_to_start(
    waiting: Sequence[Waiting],
    running: Sequence[Demand],
    *,
    at_once: int,
    capacity: Room,
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
    for demand in sorted(running, key=lambda demand: -demand.each.gpus):
        left = left.less(demand.each)
    if running and not left.fits(first.each):
        return None
    return first


def capacity_of(address: str, *, gpus: bool) -> Room:
    """The CPUs and GPUs of this machine, or of the cluster that this process is connected to.

    gpus: whether those of this machine are asked for; to count them, torch is imported.
    """
    if address == LOCAL:
        return Room(Machine.here().cpus, (1.0,) * len(gpus_here()) if gpus else ())
    from tuner.cluster.joined.nodes import list_nodes

    nodes = list_nodes()
    gpus_there = int(sum(node.gpus for node in nodes))
    return Room(sum(node.cpus for node in nodes), (1.0,) * gpus_there)


@cache
def gpus_here() -> tuple[str, ...]:
    """The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES takes."""
    count = int(Machine.here().gpus)
    visible = os.environ.get(VISIBLE)
    return tuple(visible.split(",") if visible else map(str, range(count)))[:count]
