"""What fits on the nodes of the connected cluster, and why a trial cannot start."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner import ray_compat
from tuner.cluster.nodes import Node, list_nodes
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import count_fitting_trials
from tuner.spec.sections import Resources
from tuner.spec.validation import Machine
from tuner.wording import format_amount, format_devices

POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many trials fit at once.

    on_single: for each node, in order. across: how many more, whose workers are on several nodes.
    """

    on_single: tuple[int, ...]
    across: int

    @property
    def trials(self) -> int:
        return sum(self.on_single) + self.across


def compute_capacity(resources: Resources, nodes: Sequence[Node]) -> Capacity:
    """How many trials of `resources` fit on `nodes` at once, each on one node where it can be.

    The workers of a trial may lie on several nodes; what one worker reserves may not.
    """
    single = resources.model_copy(update={"workers": 1, "split": 1})
    workers = [
        count_fitting_trials(single, Machine(cpus=node.cpus, gpus=node.gpus))
        for node in nodes
    ]
    on_single = tuple(count // resources.ranks for count in workers)
    left = sum(count % resources.ranks for count in workers)
    return Capacity(on_single, left // resources.ranks)


def describe_fit(spec: ExperimentSpec, nodes: Sequence[Node]) -> dict[str, Any]:
    """The part of a plan that depends on the cluster: {at_once, nodes, across_nodes}.

    nodes: {address, cpus, gpus, trials} of each that offers CPUs. across_nodes: trials whose
    workers lie on several. Both are what fits; at_once is at most max_concurrent.
    """
    offering = [node for node in nodes if node.cpus]
    fits = compute_capacity(spec.resources, offering)
    return {
        "at_once": min(fits.trials, spec.max_concurrent or fits.trials),
        "nodes": [
            {
                "address": node.address,
                "cpus": node.cpus,
                "gpus": node.gpus,
                "trials": trials,
            }
            for node, trials in zip(offering, fits.on_single, strict=True)
        ],
        "across_nodes": fits.across,
    }


def describe_misfit(resources: Resources, nodes: Iterable[Node]) -> str:
    """Why not one trial of `resources` fits, in words, with what the cluster has."""
    return f"a trial reserves {resources.text}, and the cluster has {describe_nodes(nodes)}"


def describe_nodes(
    nodes: Iterable[Node], *, none: str = "no node that offers CPUs"
) -> str:
    """The resources of the nodes in words: "2 nodes of 4 CPUs and 1 GPU"."""
    # Else a node is only there for its driver
    offering = (node for node in nodes if node.cpus or node.gpus)
    kinds = Counter(format_devices(node.cpus, node.gpus) for node in offering)
    counted = (
        f"{format_amount(count, 'node')} of {has}" for has, count in kinds.items()
    )
    return ", ".join(counted) or none


def find_shortage(
    resources: Resources,
    nodes: Callable[[], Sequence[Node]] = list_nodes,
    free_by_node: Callable[
        [], dict[str, dict[str, float]]
    ] = ray_compat.list_free_resources,
) -> str | None:
    """Why no trial of `resources` can start on the connected cluster now; None if one can.

    Ray 2.60 loses the CPUs of a placement group that is removed while a worker starts in it: a
    search that needs them waits for ever.
    """
    every = nodes()
    free = free_by_node()
    left = [
        replace(node, cpus=has.get("CPU", 0.0), gpus=has.get("GPU", 0.0))
        for node in every
        for has in [free.get(node.node_id, {})]
    ]
    if compute_capacity(resources, left).trials:
        return None
    return f"{describe_misfit(resources, every)}; free now: {describe_nodes(left, none='nothing')}"


@dataclass
class Room:
    """How many trials fit on the nodes of the joined cluster at the moment.

    Where the cluster `grows`, as many again, at least one: it adds nodes only for what waits.
    `on_join(new, others)` is called when nodes have joined since the last time.
    """

    resources: Resources
    nodes: Callable[[], list[Node]]
    grows: bool = False
    on_join: Callable[[list[Node], list[Node]], object] = lambda new, others: None
    poll_s: float = POLL_S
    _announced: set[str] | None = field(default=None, init=False)
    _polled: float = field(default=-math.inf, init=False)
    _limit: int = field(default=0, init=False)

    def __call__(self) -> int:
        if time.monotonic() - self._polled >= self.poll_s:
            nodes = self.nodes()
            self._announce_new(nodes)
            fits = compute_capacity(self.resources, nodes).trials
            self._polled = time.monotonic()
            self._limit = fits + max(1, fits) if self.grows else fits
        return self._limit

    def _announce_new(self, nodes: list[Node]) -> None:
        earlier = (
            {node.node_id for node in nodes}
            if self._announced is None
            else self._announced
        )
        new = [node for node in nodes if node.node_id not in earlier]
        if new:
            self.on_join(new, [node for node in nodes if node.node_id in earlier])
        self._announced = earlier.union(node.node_id for node in new)
