"""The nodes of a cluster, and how many trials fit on them at once: which where."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.planning.plan import fit
from tuner.planning.validation import Machine
from tuner.spec.experiment import ExperimentSpec, Resources
from tuner.wording import amount_of


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, with all that it offers to trials, in use or not.

    leaves: when it will be gone, in seconds since the epoch; inf where that was not told, None
    where it stays.
    """

    node_id: str
    address: str
    cpus: float
    gpus: float = 0.0
    is_head: bool = False
    leaves: float | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """Where trials fit at once: `on_one` has a number a node, in the order given; `across` is how
    many more fit whose workers lie on several.
    """

    on_one: tuple[int, ...]
    across: int

    @property
    def trials(self) -> int:
        return sum(self.on_one) + self.across


def nodes() -> list[Node]:
    """The nodes of the connected cluster that are alive and stay, by address."""
    return [node for node in all_nodes() if node.leaves is None]


def all_nodes() -> list[Node]:
    """The nodes of the connected cluster that are alive, those that are about to leave included.

    Ray starts nothing more on those; it calls them draining.
    """
    import ray
    from ray._private.state import state

    draining = state.get_draining_nodes()
    told = (node_of(node, draining) for node in ray.nodes() if node["Alive"])
    return sorted(told, key=lambda node: node.address)


def node_of(told: Mapping[str, Any], draining: Mapping[str, int]) -> Node:
    """A node from what `ray.nodes()` tells of it, and from when, in ms, which nodes will be gone.

    draining: 0 where no time was told.
    """
    has, node_id = told["Resources"], told["NodeID"]
    return Node(
        node_id,
        told["NodeManagerAddress"],
        has.get("CPU", 0.0),
        has.get("GPU", 0.0),
        "node:__internal_head__" in has,
        (draining[node_id] / 1000 or math.inf) if node_id in draining else None,
    )


def places(resources: Resources, nodes: Sequence[Node]) -> Places:
    """How many trials of `resources` fit on `nodes` at once, each on one node where it can be.

    The workers of a trial may lie on several nodes; what one worker reserves may not.
    """
    one = resources.model_copy(update={"workers": 1, "split": 1})
    workers = [fit(one, Machine(cpus=node.cpus, gpus=node.gpus)) for node in nodes]
    on_one = tuple(count // resources.ranks for count in workers)
    left = sum(count % resources.ranks for count in workers)
    return Places(on_one, left // resources.ranks)


def plan_there(spec: ExperimentSpec, there: Sequence[Node]) -> dict[str, Any]:
    """Of a plan what depends on the cluster: {at_once, nodes, across_nodes}.

    nodes: {address, cpus, gpus, trials} of each that offers CPUs. across_nodes: trials whose
    workers lie on several. Both are what fits; at_once is at most max_concurrent.
    """
    offering = [node for node in there if node.cpus]
    fits = places(spec.resources, offering)
    return {
        "at_once": min(fits.trials, spec.max_concurrent or fits.trials),
        "nodes": [
            {"address": node.address, "cpus": node.cpus, "gpus": node.gpus, "trials": trials}
            for node, trials in zip(offering, fits.on_one, strict=True)
        ],
        "across_nodes": fits.across,
    }


def too_large(resources: Resources, nodes: Iterable[Node]) -> str:
    """Why not one trial of `resources` fits, in words, with what there is."""
    each = amount_of(resources.cpus, "CPU")
    if resources.gpus:
        each += f" and {amount_of(resources.gpus, 'GPU')}"
    if resources.ranks > 1:
        each = f"{resources.ranks_text} of {each} each"
    return f"a trial reserves {each}, and the cluster has {inventory(nodes)}"


def inventory(nodes: Iterable[Node]) -> str:
    """What the nodes have, alike ones counted: "2 nodes of 4 CPUs and 1 GPU"."""
    kinds: dict[str, int] = {}
    for node in nodes:
        has = amount_of(node.cpus, "CPU")
        if node.gpus:
            has += f" and {amount_of(node.gpus, 'GPU')}"
        if node.cpus or node.gpus:  # else it is only there for its driver
            kinds[has] = kinds.get(has, 0) + 1
    told = (f"{amount_of(count, 'node')} of {has}" for has, count in kinds.items())
    return ", ".join(told) or "no node that offers CPUs"
