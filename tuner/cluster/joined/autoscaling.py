"""Waits for a cluster to have room for a trial: one that autoscales adds nodes on request."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psutil

from tuner import ray_compat
from tuner.cluster.joined.nodes import Node, capacity, how_soon, too_large, usable
from tuner.errors import UsageError
from tuner.spec.sections import Resources
from tuner.wording import duration

PATIENCE_S = 600.0  # with a cluster that autoscales, where the user gives no other

_POLL_S = 1.0
_KUBERAY = "KUBERAY_GEN_RAY_START_CMD"  # how the operator has started the head, and with
_NO_MONITOR = "--no-monitor"  # where an autoscaler of its own stands beside it

_log = logging.getLogger(__name__)


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


def await_room(
    resources: Resources,
    patience_s: float | None,
    *,
    nodes: Callable[[], list[Node]],
    grows: Callable[[list[Node]], bool],
    notify: Callable[[str], object],
    request: Callable[[Resources], AbstractContextManager[None]] = requested,
    poll_s: float = _POLL_S,
) -> None:
    """Return when a trial of `resources` fits on the cluster of `nodes`.

    If none fits, the cluster is asked to grow and waited for `patience_s`. None: PATIENCE_S if the
    cluster `grows`, otherwise no wait. `notify` gets a line about it. Raises UsageError if no trial
    fits by then.
    """
    now = nodes()
    if capacity(resources, now).trials:
        return
    autoscales = grows(now)
    if patience_s is None:
        patience_s = PATIENCE_S if autoscales else 0
    lacks = too_large(resources, now)
    if not patience_s:
        do = "ask for less (--cpus, --gpus, --workers), add nodes, or give --wait-for-resources 10m"
        raise UsageError(f"{lacks}; it does not autoscale: {do}")
    how = "the cluster autoscales" if autoscales else "until nodes are added"
    notify(f"{lacks}; waiting up to {duration(patience_s)}: {how}")
    with request(resources):
        deadline = time.monotonic() + patience_s
        while not capacity(resources, now := nodes()).trials:
            if time.monotonic() > deadline:
                raise UsageError(
                    f"after {duration(patience_s)} still {too_large(resources, now)}; look at "
                    "`ray status` on its head, or ask for less (--cpus, --gpus, --workers)"
                )
            time.sleep(poll_s)


class Room:
    """How many trials fit on the joined cluster at the moment.

    As many as fit on its nodes; of a draining node, which is warned of once, only what is in use
    counts. Where the cluster `grows`, as many again, at least one: it adds nodes only for what
    waits. `nodes` lists them, the draining ones included. `on_join(new, others)` is called when
    nodes have joined since the last time.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        nodes: Callable[[], list[Node]],
        grows: bool = False,
        on_join: Callable[[list[Node], list[Node]], object] = lambda new, others: None,
        poll_s: float = _POLL_S,
    ) -> None:
        self._resources = resources
        self._nodes = nodes
        self._grows = grows
        self._on_join = on_join
        self._poll_s = poll_s
        self._known: set[str] | None = None
        self._draining: set[str] = set()
        self._polled = -math.inf
        self._limit = 0

    def __call__(self) -> int:
        if time.monotonic() - self._polled >= self._poll_s:
            nodes = self._nodes()
            self._warn_of_draining(nodes)
            self._announce_new([node for node in nodes if node.leaves is None])
            fits = capacity(self._resources, usable(nodes)).trials
            self._polled = time.monotonic()
            self._limit = fits + max(1, fits) if self._grows else fits
        return self._limit

    def _warn_of_draining(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.leaves is not None and node.node_id not in self._draining:
                self._draining.add(node.node_id)
                when = f"{node.address} leaves{how_soon(node.leaves)}"
                _log.warning("node %s; its trials go on elsewhere then", when)

    def _announce_new(self, nodes: list[Node]) -> None:
        known = {node.node_id for node in nodes} if self._known is None else self._known
        new = [node for node in nodes if node.node_id not in known]
        if new:
            self._on_join(new, [node for node in nodes if node.node_id in known])
        self._known = known.union(node.node_id for node in new)


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
