"""Asks every node of a cluster whether a search can run there, and gives each the data set.

One node downloads that, the others receive it: it travels through Ray's object store, which
broadcasts an object from node to node, and spills it to disk where memory is short.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from tuner.cluster.nodes import Node
from tuner.cluster.tasks import RunOnEach, build_node_task, run_on_each
from tuner.errors import DataError, UsageError
from tuner.experiment.shared_storage import find_sharing_fault, write_marker
from tuner.places import is_url
from tuner.spec.by_value import is_by_value
from tuner.spec.declaration import NodeData
from tuner.wording import find_program, format_amount, summarize_names

_MOST_SHOWN = 5  # nodes, in a message

_FOR_FOLDER = (
    "Give --storage a folder that each node and this machine mount (NFS, EFS, Lustre, Filestore), "
    "or an object store (s3://bucket/folder)"
)
_FOR_URL = (
    "Give each node what it needs to read and write there (a role, a key, tuner[s3])"
)
_DOWNLOAD_S = 3600.0
_COPY_S = 900.0
_TRIES = 3  # nodes that try to download, before the driver's


def notify(text: str) -> None:
    print(text, file=sys.stderr)


def refuse_unfit(
    nodes: Sequence[Node], storage: str, trainable: str, *, run: RunOnEach
) -> None:
    """Check that each of `nodes` shares the storage and finds the trainable's module.

    A trainable by value needs no module: its code is sent. Raises UsageError with every node that
    fails, the reason and what to do.
    """
    module = None if is_by_value(trainable) else trainable.partition(":")[0]
    with write_marker(storage) as marker:
        replies = run(nodes, check_node, marker, module)
    unreached = {}
    apart = {}
    without = {}
    for reply in replies:
        if reply.value is None:
            unreached[reply.node.address] = reply.problem
            continue
        not_shared, has_module = reply.value
        if not_shared:
            apart[reply.node.address] = not_shared
        if not has_module:
            without[reply.node.address] = f"no module {module}"
    faults = []
    if unreached:
        do = f"look at it with `{find_program()} doctor --address`"
        faults.append(f"{_format_problems(unreached)} cannot run trials: {do}")
    if apart:
        faults.append(
            f"the storage {storage} is not shared by all nodes: {_format_problems(apart)}. "
            f"{_FOR_URL if is_url(storage) else _FOR_FOLDER}, or run on one node"
        )
    if without:
        faults.append(
            f"the trainable {trainable} is not found on {_format_problems(without)}: start "
            f"{find_program()} in the folder that has its module, which is then sent to the "
            "nodes, or install it there"
        )
    if faults:
        raise UsageError("\n".join(faults))


def _format_problems(problems: dict[str, str]) -> str:
    listed = [f"{address} ({problem})" for address, problem in problems.items()]
    return (
        f"{format_amount(len(listed), 'node')}, {summarize_names(listed, _MOST_SHOWN)}"
    )


def check_node(marker: str, module: str | None) -> tuple[str, bool]:
    """On a node: (why it does not share the marker's storage, or ""; whether it has the module).

    The module is not imported, but the packages that contain it are.
    """
    try:
        has_module = module is None or find_spec(module) is not None
    except (ImportError, ValueError):
        has_module = False
    return find_sharing_fault(marker), has_module


def distribute_data(
    nodes: Sequence[Node],
    data: NodeData,
    *,
    driver: str,
    run: RunOnEach = run_on_each,
    start: Callable[..., Any] = build_node_task,
) -> None:
    """Have the data set in the data folder of each of `nodes` that offers CPUs.

    A node that lacks it receives it from a node that has the archive, which may be that of the
    driver, whose id is `driver`. If none has it, the first of the other nodes that can, or else the
    driver's, downloads it. Prints each step, and the nodes that could not receive it, which
    download it themselves. Raises DataError if no node can get it.
    """
    holding, lacking = _split_nodes(nodes, data, run)
    if lacking and not holding:
        driver_nodes = [
            node for node in nodes if node.node_id == driver and node not in lacking
        ]
        _download([*lacking[:_TRIES], *driver_nodes], data, run)
        holding, lacking = _split_nodes(nodes, data, run)
    if lacking and holding:
        to = format_amount(len(lacking), "node")
        notify(f"{data.title} is copied from {holding[0].address} to {to} that lack it")
        contents = start(holding[0], run_method).remote(data, "load")
        for reply in run(
            lacking, run_method, data, "receive", contents, limit_s=_COPY_S
        ):
            if reply.problem:
                what = f"{data.title} could not be copied to {reply.node.address}"
                notify(f"{what}: {reply.problem}")


def _split_nodes(
    nodes: Sequence[Node], data: NodeData, run: RunOnEach
) -> tuple[list[Node], list[Node]]:
    """The nodes that can send the archive, and those that lack the data set and need it."""
    replies = run(nodes, run_method, data, "state")
    holding = [reply.node for reply in replies if reply.value and reply.value[0]]
    lacking = [reply.node for reply in replies if reply.value and reply.value[1]]
    return holding, [node for node in lacking if node.cpus]


def _download(candidates: Sequence[Node], data: NodeData, run: RunOnEach) -> None:
    title = data.title
    problem = ""
    for node in candidates:
        before = f" ({problem})" if problem else ""
        notify(f"{title} is on no node: {node.address} downloads it{before}")
        [reply] = run([node], run_method, data, "download", limit_s=_DOWNLOAD_S)
        if not reply.problem:
            return
        problem = f"{node.address}: {reply.problem}"
    raise DataError(f"no node has {title}, and none can download it; {problem}")


def send_to_new(
    new: Sequence[Node],
    others: Sequence[Node],
    data: NodeData,
    *,
    start: Callable[..., Any] = build_node_task,
) -> None:
    """Begin to copy the data set to nodes that have joined, from one of the `others`.

    Nobody waits for it: a trial there that is quicker downloads the data set.
    """
    senders = [node for node in others if node.cpus]
    for node in new:
        if node.cpus and senders:
            contents = start(random.choice(senders), run_method).remote(data, "load")
            start(node, run_method).remote(data, "receive", contents)


def run_method(data: NodeData, method: str, *arguments: Any) -> Any:
    return getattr(data, method)(*arguments)
