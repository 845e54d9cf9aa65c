"""Waits for a cluster to have room for a trial: one that autoscales brings nodes when asked."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuner.cluster.joined.draining import Farewell, usable
from tuner.cluster.joined.nodes import Node, all_nodes, nodes, places, too_large
from tuner.cluster.joined.run_on_nodes import on_each
from tuner.errors import UsageError
from tuner.spec.experiment import Resources
from tuner.wording import duration

PATIENCE_S = 600.0  # with a cluster that autoscales, where the user gives no other

_LOOK_EVERY_S = 1.0
_MONITOR = b"--autoscaling-config="  # of the autoscaler that `ray up` has started beside the head
_KUBERAY = "KUBERAY_GEN_RAY_START_CMD"  # how the operator has started the head, and with
_NO_MONITOR = "--no-monitor"  # where an autoscaler of its own stands beside it


def await_room(
    resources: Resources, patience_s: float | None, say: Callable[[str], object]
) -> None:
    """Return when a trial of `resources` fits on the connected cluster.

    At once where it does; else the cluster is asked for it, for as long as `patience_s`. None: as
    long as PATIENCE_S where it autoscales, and not at all where it does not. `say` is told of the
    wait. Raises UsageError where no trial fits by then.
    """
    there = nodes()
    if places(resources, there).trials:
        return
    grows = autoscales(there)
    if patience_s is None:
        patience_s = PATIENCE_S if grows else 0
    lacks = too_large(resources, there)
    if not patience_s:
        do = "ask for less (--cpus, --gpus, --workers), add nodes, or give --wait-for-resources 10m"
        raise UsageError(f"{lacks}; it does not autoscale: {do}")
    how = "the cluster autoscales" if grows else "until nodes are added"
    say(f"{lacks}; waiting up to {duration(patience_s)}: {how}")
    with _asked_for(resources):
        deadline = time.monotonic() + patience_s
        while not places(resources, nodes()).trials:
            if time.monotonic() > deadline:
                raise UsageError(
                    f"after {duration(patience_s)} still {too_large(resources, nodes())}; look at "
                    "`ray status` on its head, or ask for less (--cpus, --gpus, --workers)"
                )
            time.sleep(_LOOK_EVERY_S)


class Room:
    """How many trials may be live on the joined cluster at the moment, at most `most` (None: any).

    Those that fit on its nodes; of a node that is about to leave, which is told, only what is in
    use. Where it autoscales, as many again, at least one: it brings nodes only for what waits.
    `greet(new, others)` is told of nodes that have joined since the last look.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        most: int | None,
        grows: bool,
        greet: Callable[[list[Node], list[Node]], object] = lambda new, others: None,
    ) -> None:
        self._resources = resources
        self._most = most
        self._grows = grows
        self._greet = greet
        self._known: set[str] | None = None
        self._looked = -math.inf
        self._limit = 0
        self._farewell = Farewell()

    def __call__(self) -> int:
        if time.monotonic() - self._looked >= _LOOK_EVERY_S:
            there = all_nodes()
            self._farewell(there)
            self._welcome([node for node in there if node.leaves is None])
            fits = places(self._resources, usable(there)).trials
            self._looked = time.monotonic()
            wanted = fits + max(1, fits) if self._grows else fits
            self._limit = min(wanted, self._most or wanted)
        return self._limit

    def _welcome(self, there: list[Node]) -> None:
        known = {node.node_id for node in there} if self._known is None else self._known
        new = [node for node in there if node.node_id not in known]
        if new:
            self._greet(new, [node for node in there if node.node_id in known])
        self._known = known.union(node.node_id for node in new)


@contextmanager
def _asked_for(resources: Resources) -> Iterator[None]:
    """Let the cluster's autoscaler know what a trial needs."""
    from ray.util import placement_group, remove_placement_group

    bundle = {"CPU": resources.cpus, **({"GPU": resources.gpus} if resources.gpus else {})}
    group = placement_group([bundle] * resources.ranks, strategy="PACK")
    try:
        yield
    finally:
        remove_placement_group(group)


def autoscales(there: list[Node]) -> bool:
    """Whether an autoscaler works for the connected cluster: its head is asked.

    It is known by its process, as `ray up` starts it, or by how KubeRay has started the head.
    """
    heads = [node for node in there if node.is_head]
    return any(reply.value for reply in on_each(heads, has_autoscaler))


def has_autoscaler() -> bool:
    """On a head: whether an autoscaler works beside it."""
    if _NO_MONITOR in os.environ.get(_KUBERAY, ""):
        return True
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if any(part.startswith(_MONITOR) for part in entry.read_bytes().split(b"\0")):
                return True
    return False
