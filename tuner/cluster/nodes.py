"""The nodes of the connected cluster: what fits on them, why nothing starts, and tasks on each.

A cluster that autoscales adds nodes on request.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import psutil

from tuner import ray_compat
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import count_fitting_trials
from tuner.spec.sections import Resources
from tuner.spec.validation import Machine
from tuner.wording import format_amount, format_devices

PATIENCE_S = 600.0  # with a cluster that autoscales, where the user gives no other
POLL_S = 1.0
_KUBERAY = "KUBERAY_GEN_RAY_START_CMD"  # how the operator has started the head, and with
_NO_MONITOR = "--no-monitor"  # where an autoscaler of its own stands beside it


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, with all that it offers to trials, in use or not."""

    node_id: str
    address: str
    cpus: float
    gpus: float = 0.0
    is_head: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many trials fit at once.

    on_single: for each node, in order. across: how many more, whose workers are on several nodes.
    """

    on_single: tuple[int, ...]
    across: int

    @property
    def trials(self) -> int:
        return sum(self.on_single) + self.across


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


def compute_capacity(resources: Resources, nodes: Sequence[Node]) -> Capacity:
    """How many trials of `resources` fit on `nodes` at once, each on one node where it can be.

    The workers of a trial may lie on several nodes; what one worker reserves may not.
    """
    single = resources.model_copy(update={"workers": 1, "split": 1})
    workers = [
        count_fitting_trials(single, Machine(cpus=node.cpus, gpus=node.gpus)) for node in nodes
    ]
    on_single = tuple(count // resources.ranks for count in workers)
    left = sum(count % resources.ranks for count in workers)
    return Capacity(on_single, left // resources.ranks)


def describe_fit(spec: ExperimentSpec, nodes: Sequence[Node]) -> dict[str, Any]:
    """The part of a plan that depends on the cluster: {at_once, nodes, across_nodes}.

    nodes: {address, cpus, gpus, trials} of each that offers CPUs. across_nodes: trials whose
    workers lie on several. Both are what fits; at_once is at most max_concurrent.
    """
    offering = [node for node in nodes if node.cpus]
    fits = compute_capacity(spec.resources, offering)
    return {
        "at_once": min(fits.trials, spec.max_concurrent or fits.trials),
        "nodes": [
            {"address": node.address, "cpus": node.cpus, "gpus": node.gpus, "trials": trials}
            for node, trials in zip(offering, fits.on_single, strict=True)
        ],
        "across_nodes": fits.across,
    }


def describe_misfit(resources: Resources, nodes: Iterable[Node]) -> str:
    """Why not one trial of `resources` fits, in words, with what the cluster has."""
    return f"a trial reserves {resources.text}, and the cluster has {describe_nodes(nodes)}"


def describe_nodes(nodes: Iterable[Node], *, none: str = "no node that offers CPUs") -> str:
    """The resources of the nodes in words: "2 nodes of 4 CPUs and 1 GPU"."""
    kinds: dict[str, int] = {}
    for node in nodes:
        if node.cpus or node.gpus:  # else it is only there for its driver
            has = format_devices(node.cpus, node.gpus)
            kinds[has] = kinds.get(has, 0) + 1
    counted = (f"{format_amount(count, 'node')} of {has}" for has, count in kinds.items())
    return ", ".join(counted) or none


def find_shortage(
    resources: Resources,
    nodes: Callable[[], Sequence[Node]] = list_nodes,
    free_by_node: Callable[[], dict[str, dict[str, float]]] = ray_compat.list_free_resources,
) -> str | None:
    """Why no trial of `resources` can start on the connected cluster now; None if one can.

    Ray 2.60 loses the CPUs of a placement group that is removed while a worker starts in it: a
    search that needs them waits for ever.
    """
    every = nodes()
    free = free_by_node()
    left = [
        replace(node, cpus=has.get("CPU", 0.0), gpus=has.get("GPU", 0.0))
        for node in every
        for has in [free.get(node.node_id, {})]
    ]
    if compute_capacity(resources, left).trials:
        return None
    return f"{describe_misfit(resources, every)}; free now: {describe_nodes(left, none='nothing')}"


# --- functions that run on nodes

T = TypeVar("T")

_ANSWER_S = 90.0  # for a node to start a worker, import and answer


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The result of a function on a node, or None with the `problem`."""

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

    calls = [build_node_task(node, function).remote(*arguments) for node in nodes]
    ray.wait(calls, num_returns=len(calls), timeout=limit_s)
    return [_receive_reply(call, node, limit_s) for call, node in zip(calls, nodes, strict=True)]


def build_node_task(node: Node, function: Callable[..., Any], **options: Any) -> Any:
    """`function` as a task of Ray on `node` alone, which reserves nothing and is tried once."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    only_there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    remote = ray.remote(num_cpus=0, max_retries=0)(function)
    return remote.options(scheduling_strategy=only_there, **options)


def _receive_reply(call: Any, node: Node, limit_s: float) -> Reply[Any]:
    import ray
    from ray.exceptions import GetTimeoutError

    try:
        return Reply(node, ray.get(call, timeout=0))
    except GetTimeoutError:
        return Reply(node, None, f"it did not answer within {limit_s:g} s")
    except Exception as error:  # of any kind: it did not run there
        return Reply(node, None, describe_ray_error(error))


def describe_ray_error(error: Exception) -> str:
    """The last line of what Ray says, which names the cause; or what a missing package means."""
    text = str(error)
    if "No module named 'tuner'" in text:
        return "tuner is not installed there for the Python with which Ray was started"
    if "No module named 'tuner." in text:
        return "another version of tuner is installed there"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else repr(error)


@contextmanager
def request_resources(resources: Resources) -> Iterator[None]:
    """Let the cluster's autoscaler know what a trial needs."""
    from ray.util import placement_group, remove_placement_group

    bundle = {"CPU": resources.cpus, **({"GPU": resources.gpus} if resources.gpus else {})}
    group = placement_group([bundle] * resources.ranks, strategy="PACK")
    try:
        yield
    finally:
        remove_placement_group(group)


@dataclass
class Room:
    """How many trials fit on the nodes of the joined cluster at the moment.

    Where the cluster `grows`, as many again, at least one: it adds nodes only for what waits.
    `on_join(new, others)` is called when nodes have joined since the last time.
    """

    resources: Resources
    nodes: Callable[[], list[Node]]
    grows: bool = False
    on_join: Callable[[list[Node], list[Node]], object] = lambda new, others: None
    poll_s: float = POLL_S
    _announced: set[str] | None = field(default=None, init=False)
    _polled: float = field(default=-math.inf, init=False)
    _limit: int = field(default=0, init=False)

    def __call__(self) -> int:
        if time.monotonic() - self._polled >= self.poll_s:
            nodes = self.nodes()
            self._announce_new(nodes)
            fits = compute_capacity(self.resources, nodes).trials
            self._polled = time.monotonic()
            self._limit = fits + max(1, fits) if self.grows else fits
        return self._limit

    def _announce_new(self, nodes: list[Node]) -> None:
        earlier = {node.node_id for node in nodes} if self._announced is None else self._announced
        new = [node for node in nodes if node.node_id not in earlier]
        if new:
            self.on_join(new, [node for node in nodes if node.node_id in earlier])
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
