"""Functions that run on the nodes of the connected cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tuner.cluster.nodes import Node

T = TypeVar("T")
_ANSWER_S = 90.0  # for a node to start a worker, import and answer


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The result of a function on a node, or None with the `problem`."""

    node: Node
    value: T | None
    problem: str = ""


# `run_on_each`, or what tests play in its place
RunOnEach = Callable[..., list[Reply[Any]]]


def run_on_each(
    nodes: Sequence[Node],
    function: Callable[..., T],
    *arguments: Any,
    limit_s: float = _ANSWER_S,
) -> list[Reply[T]]:
    """The replies of all `nodes`, in their order.

    The function reserves nothing, so that it runs where every CPU is in use, too. A node that has
    not replied in `limit_s` seconds, or cannot import the function, has that as its problem.
    """
    import ray

    calls = [build_node_task(node, function).remote(*arguments) for node in nodes]
    ray.wait(calls, num_returns=len(calls), timeout=limit_s)
    return [
        _receive_reply(call, node, limit_s)
        for call, node in zip(calls, nodes, strict=True)
    ]


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
