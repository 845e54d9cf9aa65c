"""What the searches of a runner share: the CPUs and GPUs of this machine, or of a cluster."""

from __future__ import annotations

import os
from functools import cache

from tuner.places import LOCAL
from tuner.planning.validation import Machine
from tuner.service.queue.shares import Room
from tuner.trial.shared_gpus import VISIBLE


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
