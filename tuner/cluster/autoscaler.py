"""A cluster's autoscaler, which adds nodes on request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from tuner import ray_compat
from tuner.spec.sections import Resources

PATIENCE_S = 600.0  # with a cluster that autoscales, where the user gives no other
# How the operator has started the head, and with
_KUBERAY = "KUBERAY_GEN_RAY_START_CMD"
_NO_MONITOR = "--no-monitor"  # where an autoscaler of its own stands beside it


@contextmanager
def request_resources(resources: Resources) -> Iterator[None]:
    """Let the cluster's autoscaler know what a trial needs."""
    from ray.util import placement_group, remove_placement_group

    bundle = {
        "CPU": resources.cpus,
        **({"GPU": resources.gpus} if resources.gpus else {}),
    }
    group = placement_group([bundle] * resources.ranks, strategy="PACK")
    try:
        yield
    finally:
        remove_placement_group(group)


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
