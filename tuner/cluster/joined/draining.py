"""Nodes that are about to leave: a spot instance that is taken back, a machine that is shut down.

Who takes a node away gives notice to Ray, which then calls it draining and starts no more processes
there. Those that run go on until it is gone: of their trials no more than the epoch in flight is
lost.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tuner.cluster.joined.nodes import Node
from tuner.wording import duration

_log = logging.getLogger(__name__)


def usable(nodes: Sequence[Node]) -> Sequence[Node]:
    """`nodes` of the connected cluster, with no more of a leaving one than is in use there."""
    from ray._private.state import available_resources_per_node

    if all(node.leaves is None for node in nodes):
        return nodes
    free = available_resources_per_node()
    return [in_use(n, free.get(n.node_id, {})) if n.leaves is not None else n for n in nodes]


def in_use(node: Node, free: Mapping[str, float]) -> Node:
    """`node` with no more than what is not `free` of it."""
    cpus, gpus = node.cpus - free.get("CPU", 0.0), node.gpus - free.get("GPU", 0.0)
    return replace(node, cpus=cpus, gpus=gpus)


class Farewell:
    """Tells of each node that is about to leave: once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.leaves is not None and node.node_id not in self._told:
                self._told.add(node.node_id)
                soon = how_soon(node.leaves)
                _log.warning(
                    "node %s leaves%s; its trials go on elsewhere then", node.address, soon
                )


def how_soon(leaves: float) -> str:
    """The time until `leaves`, in seconds since the epoch: " in 2m 00s"; "" for inf."""
    return "" if math.isinf(leaves) else f" in {duration(leaves - time.time())}"
