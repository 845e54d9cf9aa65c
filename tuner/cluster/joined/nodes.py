"""The nodes of the connected cluster: what fits on them, why nothing starts, and tasks on each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tuner import ray_compat
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import fit
from tuner.spec.sections import Resources
from tuner.spec.validation import Machine
from tuner.wording import amount_of, duration


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, with all that it offers to trials, in use or not.

    leaves: when it will be gone, in seconds since the epoch; inf where that is not known, None
    where it stays.
    """

    node_id: str
    address: str
    cpus: float
    gpus: float = 0.0
    is_head: bool = False
    leaves: float | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many trials fit at once: `on_one` has a number a node, in order; `across` is how many
    more fit whose workers lie on several nodes.
    """

    on_one: tuple[int, ...]
    across: int

    @property
    def trials(self) -> int:
        return sum(self.on_one) + self.across


def list_nodes(*, draining: bool = False) -> list[Node]:
    """The living nodes of the connected cluster, by address; draining: with those that drain."""
    import ray

    leaving = ray_compat.draining_nodes()
    nodes = (node_of(entry, leaving) for entry in ray.nodes() if entry["Alive"])
    return sorted(
        (node for node in nodes if draining or node.leaves is None), key=lambda node: node.address
    )


def node_of(entry: Mapping[str, Any], leaving: Mapping[str, int]) -> Node:
    """A node from its entry in `ray.nodes()`, and from when, in ms, which nodes will be gone.

    leaving: 0 where the time is not known.
    """
    has, node_id = entry["Resources"], entry["NodeID"]
    return Node(
        node_id,
        entry["NodeManagerAddress"],
        has.get("CPU", 0.0),
        has.get("GPU", 0.0),
        ray_compat.HEAD in has,
        (leaving[node_id] / 1000 or math.inf) if node_id in leaving else None,
    )


def usable(nodes: Sequence[Node]) -> Sequence[Node]:
    """`nodes` of the connected cluster, a draining one with no more than what is in use there."""
    if all(node.leaves is None for node in nodes):
        return nodes
    free = ray_compat.free_resources()
    return [in_use(n, free.get(n.node_id, {})) if n.leaves is not None else n for n in nodes]


def in_use(node: Node, free: Mapping[str, float]) -> Node:
    """`node` without what is `free` of it."""
    cpus, gpus = node.cpus - free.get("CPU", 0.0), node.gpus - free.get("GPU", 0.0)
    return replace(node, cpus=cpus, gpus=gpus)


def how_soon(leaves: float) -> str:
    """The time until `leaves`, in seconds since the epoch: " in 2m 00s"; "" for inf."""
    return "" if math.isinf(leaves) else f" in {duration(leaves - time.time())}"


def capacity(resources: Resources, nodes: Sequence[Node]) -> Capacity:
    """How many trials of `resources` fit on `nodes` at once, each on one node where it can be.

    The workers of a trial may lie on several nodes; what one worker reserves may not.
    """
    one = resources.model_copy(update={"workers": 1, "split": 1})
    workers = [fit(one, Machine(cpus=node.cpus, gpus=node.gpus)) for node in nodes]
    on_one = tuple(count // resources.ranks for count in workers)
    left = sum(count % resources.ranks for count in workers)
    return Capacity(on_one, left // resources.ranks)


def plan_on(spec: ExperimentSpec, nodes: Sequence[Node]) -> dict[str, Any]:
    """What of a plan depends on the cluster: {at_once, nodes, across_nodes}.

    nodes: {address, cpus, gpus, trials} of each that offers CPUs. across_nodes: trials whose
    workers lie on several. Both are what fits; at_once is at most max_concurrent.
    """
    offering = [node for node in nodes if node.cpus]
    fits = capacity(spec.resources, offering)
    return {
        "at_once": min(fits.trials, spec.max_concurrent or fits.trials),
        "nodes": [
            {"address": node.address, "cpus": node.cpus, "gpus": node.gpus, "trials": trials}
            for node, trials in zip(offering, fits.on_one, strict=True)
        ],
        "across_nodes": fits.across,
    }


def too_large(resources: Resources, nodes: Iterable[Node]) -> str:
    """Why not one trial of `resources` fits, in words, with what the cluster has."""
    each = amounts(resources.cpus, resources.gpus)
    if resources.ranks > 1:
        each = f"{resources.ranks_text} of {each} each"
    return f"a trial reserves {each}, and the cluster has {inventory(nodes)}"


def inventory(nodes: Iterable[Node]) -> str:
    """What the nodes have, alike ones counted: "2 nodes of 4 CPUs and 1 GPU"."""
    kinds: dict[str, int] = {}
    for node in nodes:
        if node.cpus or node.gpus:  # else it is only there for its driver
            has = amounts(node.cpus, node.gpus)
            kinds[has] = kinds.get(has, 0) + 1
    counted = (f"{amount_of(count, 'node')} of {has}" for has, count in kinds.items())
    return ", ".join(counted) or "no node that offers CPUs"


def amounts(cpus: float, gpus: float) -> str:
    """CPUs and, if there are any, GPUs in words."""
    return amount_of(cpus, "CPU") + (f" and {amount_of(gpus, 'GPU')}" if gpus else "")


# --- why no trial can start

_LEAST = 1e-3  # CPUs: Ray counts no less than a tenth of it


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds CPUs and GPUs, in words; is_ours: it is a placement group of this driver's."""

    what: str
    cpus: float
    gpus: float = 0.0
    is_ours: bool = False


def shortage(
    resources: Resources, nodes: Sequence[Node], free: Sequence[Node], holders: Sequence[Holder]
) -> list[str]:
    """Why no trial of `resources` can start, a line for each reason; none if one can or does start.

    free: the nodes with what is free of each. Ray 2.60 loses the CPUs of a placement group that is
    removed while a worker starts in it: a search that needs them waits for ever.
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


def shortage_here(resources: Resources) -> list[str]:
    """`shortage` of the connected cluster."""
    nodes, free = list_nodes(), ray_compat.free_resources()
    left = [
        replace(node, cpus=has.get("CPU", 0.0), gpus=has.get("GPU", 0.0))
        for node in nodes
        for has in [free.get(node.node_id, {})]
    ]
    return shortage(resources, nodes, left, _holders())


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


# --- functions that run on nodes

T = TypeVar("T")

_ANSWER_S = 90.0  # for a node to start a worker, import and answer


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What the function has returned on a node; or None, and `problem` says why."""

    node: Node
    value: T | None
    problem: str = ""


RunOnEach = Callable[..., list[Reply[Any]]]  # `run_on_each`, or what tests play in its place


def run_on_each(
    nodes: Sequence[Node], function: Callable[..., T], *arguments: Any, limit_s: float = _ANSWER_S
) -> list[Reply[T]]:
    """The replies of all `nodes`, in their order.

    The function reserves nothing, so that it runs where every CPU is in use, too. A node that has
    not replied in `limit_s` seconds, or cannot import the function, has that as its problem.
    """
    import ray

    calls = [remote_on(node, function).remote(*arguments) for node in nodes]
    ray.wait(calls, num_returns=len(calls), timeout=limit_s)
    return [_reply_of(call, node, limit_s) for call, node in zip(calls, nodes, strict=True)]


def remote_on(node: Node, function: Callable[..., Any], **options: Any) -> Any:
    """`function` as a task of Ray on `node` alone, which reserves nothing and is tried once."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    only_there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    remote = ray.remote(num_cpus=0, max_retries=0)(function)
    return remote.options(scheduling_strategy=only_there, **options)


def _reply_of(call: Any, node: Node, limit_s: float) -> Reply[Any]:
    import ray
    from ray.exceptions import GetTimeoutError

    try:
        return Reply(node, ray.get(call, timeout=0))
    except GetTimeoutError:
        return Reply(node, None, f"it did not answer within {limit_s:g} s")
    except Exception as error:  # of any kind: it did not run there
        return Reply(node, None, problem_of(error))


def problem_of(error: Exception) -> str:
    """The last line of what Ray says, which names the cause; or what a missing package means."""
    text = str(error)
    if "No module named 'tuner'" in text:
        return "tuner is not installed there for the Python with which Ray was started"
    if "No module named 'tuner." in text:
        return "another version of tuner is installed there"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else repr(error)
