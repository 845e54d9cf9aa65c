"""The failure behind the death of a trial's process, from Ray's error and from notes.

A killed process cannot say why it ended. Who kills it leaves a note: a file in a folder of the
local Ray, named by the process and the kind of failure. On a joined cluster there are no notes.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path

from tuner import ray_compat
from tuner.trial.failures import Failure, WorkerSpentError

# In the environment of drivers and workers: the folder of the notes
NOTES = "TUNER_NOTES"

_ANSWER_S = 3.0  # for the daemon of a node to accept a connection


def write_note(folder: Path, pid: int, failure: Failure) -> None:
    note = {"kind": failure.kind, "message": failure.message}
    (folder / f"{pid}-{failure.kind}").write_text(json.dumps(note))


def _read_note(pid: str) -> Failure | None:
    folder = os.environ.get(NOTES)
    if not folder:
        return None
    for path in sorted(Path(folder).glob(f"{pid}-*")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            # A damaged note is none
            note = json.loads(path.read_text())
            return Failure(note["kind"], note["message"])
    return None


def build_death_failure(error: BaseException | None) -> Failure:
    """The failure for Ray's error about a dead process; None: without an error."""
    from ray.exceptions import NodeDiedError, OutOfMemoryError

    cause = getattr(error, "cause", error)
    if isinstance(cause, WorkerSpentError):
        return cause.failure
    text = " ".join(str(error or "").split())
    if (
        isinstance(error, NodeDiedError)
        or ray_compat.NODE_DIED in text
        or _has_lost_node(error)
    ):
        return Failure("node_lost", "the node that it ran on is gone, or was cut off")
    pid = ray_compat.PID.search(text)
    if pid and (noted := _read_note(pid[1])):
        return noted
    if isinstance(error, OutOfMemoryError):
        return Failure("oom", text[:500])
    if error is None or ray_compat.PROCESS_DIED in text:
        return Failure(
            "crash", "its process is gone: it crashed, was killed, or ended itself"
        )
    return Failure("crash", text[:500])


def _has_lost_node(error: BaseException | None) -> bool:
    """Whether an actor is gone, or cannot be reached, because its node is, or was for a while.

    Ray notices the loss of an actor before that of its node. A node whose daemon accepts no
    connection is lost. If it accepts one, the network may be back: the actor was cut off unless Ray
    knows that its process has died.
    """
    import ray
    from ray.exceptions import ActorUnavailableError, RayActorError

    if not isinstance(error, RayActorError) or not ray.is_initialized():
        return False
    if error.preempted:
        return True
    node_id, process_died = ray_compat.describe_actor_death(error)
    node = next((node for node in ray.nodes() if node["NodeID"] == node_id), None)
    if node is None:  # the actor was never placed
        return False
    if not node["Alive"] or not _is_reachable(
        node["NodeManagerAddress"], node["NodeManagerPort"]
    ):
        return True
    if not isinstance(error, ActorUnavailableError) or process_died:
        return False
    # Nothing cuts off our own
    return bool(node_id != ray.get_runtime_context().get_node_id())


def _is_reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError:
        return False
    return True
