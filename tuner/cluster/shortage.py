"""Why no trial can start: what it reserves, what is free, and who holds the rest.

Ray 2.60 loses the CPUs of a placement group that is removed while a worker starts in it. A search
that needs them waits for ever, in a Ray that lives longer than a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tuner import ray_compat
from tuner.cluster.joined.nodes import Node, amounts, capacity, inventory, list_nodes, too_large
from tuner.spec.sections import Resources

_LEAST = 1e-3  # CPUs: Ray counts no less than a tenth of it


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds CPUs and GPUs, in words; is_ours: it is this driver's place for a trial."""

    what: str
    cpus: float
    gpus: float = 0.0
    is_ours: bool = False


def explain(
    resources: Resources,
    nodes: Sequence[Node],
    free: Sequence[Node],
    holders: Iterable[Holder] | None,
) -> list[str]:
    """Why no trial of `resources` can start, a line a thing; none where one can, or just does.

    free: the nodes with what is free of each. holders: None where Ray does not tell.
    """
    known = list(holders or ())
    if capacity(resources, free).trials or any(holder.is_ours for holder in known):
        return []
    lines = [f"{too_large(resources, nodes)}, of which is free: {inventory(free)}"]
    lines += [f"{amounts(holder.cpus, holder.gpus)} held by {holder.what}" for holder in known]
    cpus, gpus = (
        sum(getattr(node, kind) for node in nodes)
        - sum(getattr(each, kind) for each in (*free, *known))
        for kind in ("cpus", "gpus")
    )
    if holders is not None and max(cpus, gpus) > _LEAST:
        rest = "no actor or placement group: by tasks, or lost until Ray is started anew"
        lines.append(f"{amounts(cpus, gpus)} held by {rest}")
    return lines


def explain_here(resources: Resources) -> list[str]:
    """`explain` of the connected cluster."""
    nodes, offered = list_nodes(), ray_compat.free_resources()
    if not offered:  # a Ray that does not tell
        return []

    def left(node: Node, name: str) -> float:
        return offered.get(node.node_id, {}).get(name, 0.0)

    free = [replace(node, cpus=left(node, "CPU"), gpus=left(node, "GPU")) for node in nodes]
    return explain(resources, nodes, free, _holders())


def _holders() -> list[Holder] | None:
    """The actors and placement groups of the connected cluster; None where Ray does not tell."""
    import ray
    from ray.util import placement_group_table

    actors = ray_compat.holding_actors()
    if actors is None:
        return None
    holders = [
        Holder(f"actor {name} (pid {pid}, job {job})", held.get("CPU", 0.0), held.get("GPU", 0.0))
        for name, pid, job, held in actors  # of what lies in a placement group, none goes by "CPU"
    ]
    own_job = ray.get_runtime_context().get_job_id()
    for group in placement_group_table().values():
        if group["state"] == "CREATED":
            job, bundles = ray_compat.job_of(group["placement_group_id"]), group["bundles"].values()
            cpus, gpus = (sum(each.get(kind, 0.0) for each in bundles) for kind in ("CPU", "GPU"))
            what = f"placement group {group['name']}".rstrip()
            holders.append(Holder(f"{what} (job {job})", cpus, gpus, is_ours=job == own_job))
    return [holder for holder in holders if holder.cpus or holder.gpus]
