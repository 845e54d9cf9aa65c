"""What it means that a process of a trial is gone, or that Ray could not run it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
    RayError,
)
from ray.util.placement_group import get_current_placement_group, placement_group_table

from tuner.trial import notes
from tuner.trial.failures import Failure

_ANSWER_S = 3.0  # for the daemon of a node to take a connection


class WorkerSpentError(RuntimeError):
    """Ends a worker's process that is to train no further; says what its trial failed of."""

    def __init__(self, kind: str, message: str, poisoned: bool) -> None:
        super().__init__(kind, message, poisoned)
        self.failure = Failure(kind, message, poisoned)


class WorkerReplacedError(RuntimeError):
    """Ends a worker's process that is not to begin the next trial, which goes elsewhere."""


def is_recycled(error: BaseException | None) -> bool:
    """Whether a trial ended only because its process was not to be used again."""
    return isinstance(getattr(error, "cause", error), WorkerReplacedError)


def must_move() -> bool:
    """Whether a node is about to leave on which this process or a worker of its trial runs."""
    if notes.FOLDER in os.environ or not ray.is_initialized():  # a Ray of our own is one node
        return False
    from ray._private.worker import global_worker

    try:
        leaving = global_worker.gcs_client.get_draining_nodes()  # type: ignore[attr-defined]
    except RayError:  # a trial is not to fail of a question that nobody answers
        return False
    if not leaving:
        return False
    placed = placement_group_table(get_current_placement_group())["bundles_to_node_id"]
    return not {ray.get_runtime_context().get_node_id(), *placed.values()}.isdisjoint(leaving)


def death_of(error: BaseException | None) -> Failure:
    """The failure behind what Ray says of a process's death (None: it said nothing)."""
    cause = getattr(error, "cause", error)
    if isinstance(cause, WorkerSpentError):
        return cause.failure
    text = " ".join(str(error or "").split())
    if isinstance(error, NodeDiedError) or "its node has died" in text or _lost_its_node(error):
        return Failure("node_lost", "the node that it ran on is gone, or was cut off")
    noted = notes.of(str(error or ""))
    if noted:
        return noted
    if isinstance(error, OutOfMemoryError):
        return Failure("oom", text[:500])
    if error is None or "its worker process has died" in text:
        return Failure("crash", "its process is gone: it crashed, was killed, or ended itself")
    return Failure("crash", text[:500])


def _lost_its_node(error: BaseException | None) -> bool:
    """Whether an actor is gone, or cannot be reached, because its node is, or was for a while.

    Ray says so only once it has given the node up, which takes longer than to miss the actor. So
    the node is asked: where its daemon takes no connection, it is lost. Where it takes one, the
    network may be back; the actor was cut off unless Ray knows that its process has died.
    """
    if not isinstance(error, RayActorError) or not ray.is_initialized():
        return False
    if error.preempted:
        return True
    from ray._private import state

    actor = state.actors(error.actor_id) if error.actor_id else {}
    node_id = actor.get("Address", {}).get("NodeID")
    if not node_id:  # it was never placed
        return False
    node = next((told for told in ray.nodes() if told["NodeID"] == node_id), None)
    if node is None:
        return False
    if not node["Alive"] or not _answers(node["NodeManagerAddress"], node["NodeManagerPort"]):
        return True
    if not isinstance(error, ActorUnavailableError) or _has_died(actor):
        return False
    return bool(node_id != ray.get_runtime_context().get_node_id())  # nothing cuts off our own


def _has_died(actor: Mapping[str, Any]) -> bool:
    """Whether an actor's process has died; not one that Ray has ended since nobody wanted it."""
    from ray.core.generated.common_pb2 import (  # type: ignore[attr-defined]
        ActorDiedErrorContext,
    )

    reason = actor["DeathCause"].actor_died_error_context.reason
    return bool(reason == ActorDiedErrorContext.WORKER_DIED)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError:
        return False
    return True
