"""What `ray` does not offer of a joined cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from tuner.ray_compat.names import METADATA


# Without it: `--address auto` knows no cluster but that of RAY_ADDRESS
def this_machines_cluster() -> str | None:
    """Return HOST:PORT of the head of the cluster that this machine belongs to.

    It is known before Ray starts here. Raises ConnectionError if there is none, or several. Until:
    `ray.init` itself says in seconds why it cannot join.
    """
    from ray._private.services import canonicalize_bootstrap_address_or_die

    return str(canonicalize_bootstrap_address_or_die("auto"))


# Without it: Ray finds out slowly whether a cluster's token and versions match
def cluster_metadata(head: str, timeout_s: float) -> bytes:
    """Return what a cluster's head has recorded of its versions, as JSON; may be empty.

    `ray.init` waits for a minute and names one of many causes. Raises Ray's AuthenticationError and
    RpcError. Until: `ray.init` says in seconds why it cannot join.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    return GcsClient(head).internal_kv_get(*METADATA, timeout=timeout_s) or b""


# Without it: a driver on a machine outside of the cluster waits a minute to be refused
def has_node_here(head: str, timeout_s: float) -> bool:
    """Return whether a living node of the cluster at `head` is on this machine.

    A driver needs one to talk to the cluster through. Until: `ray.init` says in seconds why it
    cannot join.
    """
    from ray._private.services import find_node_ids
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]

    nodes = GcsClient(head).get_all_node_info(timeout=timeout_s)
    alive = GcsNodeInfo.GcsNodeState.ALIVE
    living = {key.hex() for key, node in nodes.items() if node.state == alive}
    return bool(find_node_ids() & living)


# Without it: a node that is about to leave is used until it is gone
def draining_nodes() -> dict[str, int]:
    """Return by id when the nodes that are about to leave will be gone, in ms (0: unknown).

    Empty where the head does not answer: that a node is lost is noticed anyway. Until:
    `ray.nodes()` tells it.
    """
    from ray._private.worker import global_worker
    from ray.exceptions import RayError

    try:
        return dict(global_worker.gcs_client.get_draining_nodes())  # type: ignore[attr-defined]
    except RayError:
        return {}


# Without it: of a node that is about to leave all counts as in use
def free_resources() -> dict[str, dict[str, float]]:
    """Return what is free on each node, by id.

    `ray.available_resources()` is the sum over all nodes. Until: Ray tells it a node without the
    dashboard.
    """
    from ray._private.state import available_resources_per_node

    return dict(available_resources_per_node())


# Without it: a folder of code that is too large is refused by Ray, without the largest files
def visit_sent_files(
    directory: Path, excludes: list[str], visit: Callable[[Path], object], *, gitignore: bool
) -> None:
    """Call `visit` with each file and folder of `directory` that Ray would send to the nodes.

    What is too large is refused before it is packed, with the largest entries, and the rules of
    what is left out are Ray's. Until: Ray says what it would send.
    """
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import _dir_travel, _get_excludes

    logger = logging.getLogger(f"{__name__}.walk")  # Ray tells of each file that it leaves out
    logger.disabled = True
    left_out = _get_excludes(directory, [*get_runtime_env_default_excludes(), *excludes])
    _dir_travel(directory, [left_out], visit, include_gitignore=gitignore, logger=logger)


# Without it: a search that waits for CPUs does not say who holds them
def holding_actors() -> list[tuple[str, int, str, dict[str, float]]]:
    """Return of each living actor its name, or its class's, its pid, its job, and what it holds.

    Only the dashboard tells it, which a Ray of ours does not start. Until: Ray tells it without
    one.
    """
    from ray._private.state import state
    from ray.core.generated.gcs_pb2 import ActorTableData  # type: ignore[attr-defined]

    table = state._connect_and_get_accessor().get_actor_table(None, "ALIVE")
    actors = map(ActorTableData.FromString, table)
    return [
        (
            actor.name or actor.class_name,
            actor.pid,
            actor.job_id.hex(),
            {**actor.required_resources},
        )
        for actor in actors
    ]


# Without it: a trial that is about to start counts as one that waits
def job_of(placement_group_id: str) -> str:
    """Return the id of the job that has made a placement group: the group's id ends with it.

    Until: `placement_group_table` tells it.
    """
    return placement_group_id[-8:]
