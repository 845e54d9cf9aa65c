"""What `ray` does not offer of a joined cluster."""

from __future__ import annotations

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


# Without it: a search that waits for CPUs does not say what is free
def free_resources() -> dict[str, dict[str, float]]:
    """Return what is free on each node, by id.

    `ray.available_resources()` is the sum over all nodes. Until: Ray tells it a node without the
    dashboard.
    """
    from ray._private.state import available_resources_per_node

    return dict(available_resources_per_node())
