"""The room that a cluster has for trials: one that autoscales adds nodes on request."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from tuner import ray_compat
from tuner.cluster.nodes import Node, capacity
from tuner.spec.sections import Resources

PATIENCE_S = 600.0  # with a cluster that autoscales, where the user gives no other

POLL_S = 1.0
_KUBERAY = "KUBERAY_GEN_RAY_START_CMD"  # how the operator has started the head, and with
_NO_MONITOR = "--no-monitor"  # where an autoscaler of its own stands beside it


@contextmanager
def requested(resources: Resources) -> Iterator[None]:
    """Let the cluster's autoscaler know what a trial needs."""
    from ray.util import placement_group, remove_placement_group

    bundle = {"CPU": resources.cpus, **({"GPU": resources.gpus} if resources.gpus else {})}
    group = placement_group([bundle] * resources.ranks, strategy="PACK")
    try:
        yield
    finally:
        remove_placement_group(group)


class Room:
    """How many trials fit on the nodes of the joined cluster at the moment.

    Where the cluster `grows`, as many again, at least one: it adds nodes only for what waits.
    `on_join(new, others)` is called when nodes have joined since the last time.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        nodes: Callable[[], list[Node]],
        grows: bool = False,
        on_join: Callable[[list[Node], list[Node]], object] = lambda new, others: None,
        poll_s: float = POLL_S,
    ) -> None:
        self._resources = resources
        self._nodes = nodes
        self._grows = grows
        self._on_join = on_join
        self._poll_s = poll_s
        self._announced: set[str] | None = None
        self._polled = -math.inf
        self._limit = 0

    def __call__(self) -> int:
        if time.monotonic() - self._polled >= self._poll_s:
            nodes = self._nodes()
            self._announce_new(nodes)
            fits = capacity(self._resources, nodes).trials
            self._polled = time.monotonic()
            self._limit = fits + max(1, fits) if self._grows else fits
        return self._limit

    def _announce_new(self, nodes: list[Node]) -> None:
        earlier = {node.node_id for node in nodes} if self._announced is None else self._announced
        new = [node for node in nodes if node.node_id not in earlier]
        if new:
            self._on_join(new, [node for node in nodes if node.node_id in earlier])
        self._announced = earlier.union(node.node_id for node in new)


def has_autoscaler() -> bool:
    """On a head: whether an autoscaler works for its cluster.

    It is known by its process, as `ray up` starts it, or by how KubeRay has started the head.
    """
    if _NO_MONITOR in os.environ.get(_KUBERAY, ""):
        return True
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is not to be seen
            if any(part.startswith(ray_compat.MONITOR) for part in process.cmdline()):
                return True
    return False
