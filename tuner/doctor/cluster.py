"""A running cluster: whether it lets us in, whom else, and what it has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tuner.cluster import access
from tuner.cluster import connect as cluster
from tuner.cluster.joined.draining import how_soon
from tuner.cluster.joined.nodes import all_nodes, nodes
from tuner.doctor import nodes as every_node
from tuner.doctor.finding import Finding, size
from tuner.errors import UsageError

_PROBE_S = 60  # how long a cluster may take to answer one who shows no token


def check(address: str, storage: str) -> Iterator[Finding]:
    """The running cluster at `address`: whether it lets us in, whom else, and what each node has.

    storage: where experiments are to lie, which each node must share.
    """
    try:
        with cluster.connect(address):
            import ray

            head = ray.get_runtime_context().gcs_address
            yield Finding("cluster", "joined", f"{head}, Ray {ray.__version__} as here")
            leaves = {node.node_id: node.leaves for node in all_nodes()}
            for node in ray.nodes():
                yield _node(node, leaves.get(node["NodeID"]))
            yield from every_node.check([node for node in nodes() if node.cpus], storage)
    except UsageError as error:
        found, _, advice = str(error).partition(": ")
        yield Finding("cluster", "joined", found, "broken", advice)
        return
    if _lets_in_without_token(head):
        advice = (
            f"everyone who reaches it can run code in it: start it with {access.AUTH_MODE}=token"
        )
        yield Finding("cluster", "authentication", "without a token", "warning", advice)
    else:
        yield Finding("cluster", "authentication", "with a token")


def _node(node: dict[str, Any], leaves: float | None) -> Finding:
    has = node["Resources"]
    found = f"{has.get('CPU', 0):g} CPUs, {has.get('GPU', 0):g} GPUs"
    found += f", {size(has['memory'])} of memory" if "memory" in has else ""
    if leaves is not None:
        advice = "what runs there goes on elsewhere then; add a node if its room is needed"
        found = f"{found}; leaves{how_soon(leaves)}"
        return Finding("cluster", node["NodeManagerAddress"], found, "warning", advice)
    if node["Alive"]:
        return Finding("cluster", node["NodeManagerAddress"], found)
    return Finding("cluster", node["NodeManagerAddress"], "gone", "warning", "restart it")


def _lets_in_without_token(head: str) -> bool:
    """Whether a client that shows no token gets an answer from the cluster's head."""
    code = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1])"
    told = (access.TOKEN, access.TOKEN_PATH)
    environment = {name: value for name, value in os.environ.items() if name not in told}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, head],
            env={**environment, access.AUTH_MODE: "disabled"},
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
