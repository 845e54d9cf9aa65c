"""Why no trial can start: what it reserves, what is free, and who holds the rest.

Ray 2.60 loses the CPUs of a placement group that is removed while a worker starts in it. A search
that needs them waits for ever, in a Ray that lives longer than a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner import ray_compat
from tuner.cluster.joined.nodes import Node, amounts, capacity, inventory, list_nodes, too_large
from tuner.spec.sections import Resources

_LEAST = 1e-3  # CPUs: Ray counts no less than a tenth of it


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds CPUs and GPUs, in words; is_ours: it is a placement group of this driver's."""

    what: str
    cpus: float
    gpus: float = 0.0
    is_ours: bool = False


def explain(
    resources: Resources, nodes: Sequence[Node], free: Sequence[Node], holders: Sequence[Holder]
) -> list[str]:
    """Why no trial of `resources` can start, a line for each reason; none if one can or does start.

    free: the nodes with what is free of each.
    """
    if capacity(resources, free).trials or any(holder.is_ours for holder in holders):
        return []
    lines = [f"{too_large(resources, nodes)}, of which is free: {inventory(free)}"]
    lines += [f"{amounts(holder.cpus, holder.gpus)} held by {holder.what}" for holder in holders]
    cpus, gpus = (
        sum(getattr(node, kind) for node in nodes)
        - sum(getattr(each, kind) for each in (*free, *holders))
        for kind in ("cpus", "gpus")
    )
    if max(cpus, gpus) > _LEAST:
        rest = "no actor or placement group: by tasks, or lost until Ray is started anew"
        lines.append(f"{amounts(cpus, gpus)} held by {rest}")
    return lines


def explain_here(resources: Resources) -> list[str]:
    """`explain` of the connected cluster."""
    nodes, free = list_nodes(), ray_compat.free_resources()
    left = [
        replace(node, cpus=has.get("CPU", 0.0), gpus=has.get("GPU", 0.0))
        for node in nodes
        for has in [free.get(node.node_id, {})]
    ]
    return explain(resources, nodes, left, _holders())


def _holders() -> list[Holder]:
    """The actors and placement groups of the connected cluster that hold CPUs or GPUs."""
    import ray
    from ray.util import placement_group_table

    holders = [
        Holder(f"actor {name} (pid {pid}, job {job})", held.get("CPU", 0.0), held.get("GPU", 0.0))
        for name, pid, job, held in ray_compat.holding_actors()
        # of what lies in a placement group, none goes by "CPU"
    ]
    own_job = ray.get_runtime_context().get_job_id()
    for group in placement_group_table().values():
        if group["state"] == "CREATED":
            job, bundles = ray_compat.job_of(group["placement_group_id"]), group["bundles"].values()
            cpus, gpus = (sum(each.get(kind, 0.0) for each in bundles) for kind in ("CPU", "GPU"))
            what = f"placement group {group['name']}".rstrip()
            holders.append(Holder(f"{what} (job {job})", cpus, gpus, is_ours=job == own_job))
    return [holder for holder in holders if holder.cpus or holder.gpus]
