"""How searches share the CPUs and GPUs of a machine or cluster.

Each trial goes to the user with the smallest share for their weight, and among that user's searches
to the one with the smallest share. A share is the dominant one: of all CPUs or of all GPUs,
whichever is larger (Ghodsi et al., Dominant Resource Fairness, NSDI 2011).
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tuner.cluster import LOCAL
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

    def subtract_trials(self, each: Amounts, times: int = 1) -> Room:
        """The room left after taking `each` so many times; negative if more was promised.

        A fraction of a GPU is taken from the fullest GPU that has room.
        """
        gpus = sorted(self.gpus)
        for _ in range(times if gpus and each.gpus else 0):
            if each.gpus >= 1:
                count = int(each.gpus)
                gpus[-count:] = [free - 1 for free in gpus[-count:]]
            else:
                fitting = (
                    n for n, free in enumerate(gpus) if free + _SLACK >= each.gpus
                )
                gpus[next(fitting, -1)] -= each.gpus
            gpus.sort()
        return Room(self.cpus - times * each.cpus, tuple(gpus))

    def count_fitting(self, each: Amounts) -> int:
        counts = [self.cpus / each.cpus] if each.cpus else []
        if each.gpus:
            part = min(each.gpus, 1)
            parts = sum(max(0, math.floor(free / part + _SLACK)) for free in self.gpus)
            counts.append(parts / max(1, int(each.gpus)))
        return max(0, math.floor(min(counts) + _SLACK))

    def compute_share(self, each: Amounts) -> float:
        pairs = (each.cpus, self.cpus), (each.gpus, len(self.gpus))
        return max((part / total for part, total in pairs if total > 0), default=0.0)


@dataclass(frozen=True, slots=True)
class Demand:
    """A search that runs or waits.

    each: what one of its trials reserves. most: how many trials at a time it can use, or None for
    any number. holds: how many it may be running now. added: when it was added, if it waits.
    """

    name: str
    user: str
    each: Amounts
    most: int | None = None
    holds: int = 0
    added: float = 0.0

    def count_wanted(self, capacity: Room) -> int:
        """How many trials at a time it wants: those that fit, at least 1 and at most `most`."""
        fits = max(1, capacity.count_fitting(self.each))
        return fits if self.most is None else min(fits, self.most)


def divide_trials(
    demands: Sequence[Demand], *, capacity: Room, weights: Mapping[str, float]
) -> dict[str, int]:
    """How many trials at a time each search is due, at least one if all can have one."""
    due = {demand.name: 0 for demand in demands}
    left = capacity
    wants = {demand.name: demand.count_wanted(capacity) for demand in demands}
    taken = {demand.user: 0.0 for demand in demands}  # divided by their weight

    def add_trial(demand: Demand) -> None:
        nonlocal left
        due[demand.name] += 1
        left = left.subtract_trials(demand.each)
        weight = weights.get(demand.user, 1.0)
        taken[demand.user] += capacity.compute_share(demand.each) / weight

    for demand in demands:
        if wants[demand.name] and left.count_fitting(demand.each):
            add_trial(demand)
    while unsatisfied := [
        demand
        for demand in demands
        if due[demand.name] < wants[demand.name] and left.count_fitting(demand.each)
    ]:
        add_trial(
            min(
                unsatisfied,
                key=lambda d: (
                    taken[d.user],
                    due[d.name] * capacity.compute_share(d.each),
                ),
            )
        )
    return due


def compute_limits(
    demands: Sequence[Demand],
    *,
    capacity: Room,
    unused: Room,
    weights: Mapping[str, float],
) -> dict[str, int]:
    """How many trials at a time each search may run from now on; 0: it cannot start yet.

    A search that holds too much gives it up as its trials end, and only then do others get more. A
    running search keeps one trial. unused: what no process uses now; held fractions may be spread
    over more GPUs than `holds` assumes.
    """
    due = divide_trials(demands, capacity=capacity, weights=weights)
    free = capacity
    by_name = {}
    for demand in sorted(demands, key=lambda demand: -demand.each.gpus):
        free = free.subtract_trials(demand.each, demand.holds)
    for demand in demands:
        fits = min(free.count_fitting(demand.each), unused.count_fitting(demand.each))
        more = min(max(0, due[demand.name] - demand.holds), fits)
        free = free.subtract_trials(demand.each, more)
        unused = unused.subtract_trials(demand.each, more)
        limit = demand.holds + more if more else min(demand.holds, due[demand.name])
        by_name[demand.name] = max(limit, 1 if demand.holds else 0)
    return by_name


def choose_next(
    waiting: Sequence[Demand],
    running: Sequence[Demand],
    *,
    at_once: int,
    capacity: Room,
    weights: Mapping[str, float],
) -> Demand | None:
    """The search to start next, or None if there is none or it must wait for room.

    It is the oldest of the user with the fewest running searches for their weight. No search
    overtakes it while it waits for room.
    """
    if not waiting or len(running) >= at_once:
        return None
    searches = Counter(demand.user for demand in running)
    first = min(
        waiting,
        key=lambda w: (searches[w.user] / weights.get(w.user, 1.0), w.added, w.name),
    )
    left = capacity
    for demand in sorted(running, key=lambda demand: -demand.each.gpus):
        left = left.subtract_trials(demand.each)
    if running and not left.count_fitting(first.each):
        return None
    return first


def measure_capacity(address: str, *, gpus: bool) -> Room:
    """The CPUs and GPUs of this machine, or of the cluster that this process is connected to.

    gpus: whether to count the GPUs of this machine, which imports torch.
    """
    if address == LOCAL:
        return Room(Machine.detect().cpus, (1.0,) * len(list_gpus()) if gpus else ())
    from tuner.cluster.nodes import list_nodes

    nodes = list_nodes()
    gpus_there = int(sum(node.gpus for node in nodes))
    return Room(sum(node.cpus for node in nodes), (1.0,) * gpus_there)


@cache
def list_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES takes."""
    return parse_gpu_names(int(Machine.detect().gpus), os.environ.get(VISIBLE))


def parse_gpu_names(count: int, visible: str | None) -> tuple[str, ...]:
    """The names of `count` GPUs. visible: the value of CUDA_VISIBLE_DEVICES, or None."""
    return tuple(visible.split(",") if visible else map(str, range(count)))[:count]
