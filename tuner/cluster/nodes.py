"""The nodes of the connected cluster."""

from __future__ import annotations

from dataclasses import dataclass

from tuner import ray_compat


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, with all that it offers to trials, in use or not."""

    node_id: str
    address: str
    cpus: float
    gpus: float = 0.0
    is_head: bool = False


def list_nodes() -> list[Node]:
    """The living nodes of the connected cluster, by address."""
    import ray

    nodes = [
        Node(
            entry["NodeID"],
            entry["NodeManagerAddress"],
            entry["Resources"].get("CPU", 0.0),
            entry["Resources"].get("GPU", 0.0),
            ray_compat.HEAD in entry["Resources"],
        )
        for entry in ray.nodes()
        if entry["Alive"]
    ]
    return sorted(nodes, key=lambda node: node.address)
