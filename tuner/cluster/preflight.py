"""Asks every node of a cluster whether a search can run there, before there is a folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from tuner.cluster.nodes import Node, RunOnEach, run_on_each
from tuner.errors import UsageError
from tuner.experiment.storage import marker_in, why_not_shared
from tuner.places import is_url
from tuner.spec.by_value import is_by_value
from tuner.wording import amount_of, program, some_of

_MOST_SHOWN = 5  # nodes, in a message

_FOR_FOLDER = (
    "Give --storage a folder that each node and this machine mount (NFS, EFS, Lustre, Filestore), "
    "or an object store (s3://bucket/folder)"
)
_FOR_URL = "Give each node what it needs to read and write there (a role, a key, tuner[s3])"


def refuse_unfit(
    nodes: Sequence[Node], storage: str, trainable: str, *, run: RunOnEach = run_on_each
) -> None:
    """Check that each of `nodes` shares the storage and finds the trainable's module.

    A trainable by value needs no module: its code is sent. Raises UsageError with every node that
    fails, the reason and what to do.
    """
    module = None if is_by_value(trainable) else trainable.partition(":")[0]
    with marker_in(storage) as marker:
        replies = run(nodes, check_node, marker, module)
    unreached, apart, without = {}, {}, {}
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
        do = f"look at it with `{program()} doctor --address`"
        faults.append(f"{_listed(unreached)} cannot run trials: {do}")
    if apart:
        faults.append(
            f"the storage {storage} is not shared by all nodes: {_listed(apart)}. "
            f"{_FOR_URL if is_url(storage) else _FOR_FOLDER}, or run on one node"
        )
    if without:
        faults.append(
            f"the trainable {trainable} is not found on {_listed(without)}: start {program()} in "
            "the folder that has its module, which is then sent to the nodes, or install it there"
        )
    if faults:
        raise UsageError("\n".join(faults))


def _listed(problems: dict[str, str]) -> str:
    """The first nodes with their problems."""
    listed = [f"{address} ({problem})" for address, problem in problems.items()]
    return f"{amount_of(len(listed), 'node')}, {some_of(listed, _MOST_SHOWN)}"


def check_node(marker: str, module: str | None) -> tuple[str, bool]:
    """On a node: (why it does not share the marker's storage, or ""; whether it has the module).

    The module is not imported, but the packages that contain it are.
    """
    try:
        has_module = module is None or find_spec(module) is not None
    except (ImportError, ValueError):
        has_module = False
    return why_not_shared(marker), has_module
