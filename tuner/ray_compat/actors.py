"""What Ray knows of an actor that is gone."""

from __future__ import annotations

import re
from typing import Any

# Without it: whatever ends a trial's process, its node or too little memory, is a crash
NODE_DIED = "its node has died"  # in the message of a RayActorError
PROCESS_DIED = "its worker process has died"  # likewise
PID = re.compile(r"\bpid: (\d+)")  # likewise: of the process that has died


# Without it: a trial that was cut off with its node is a crash, and may not be tried again
def actor_of(error: Any) -> tuple[str | None, bool]:
    """Return the node of the actor that a RayActorError is about, and whether its process has died.

    The node is None where the actor was never placed. A process that Ray has ended because nobody
    needed it any more has not died. Until: the error tells both.
    """
    from ray._private import state
    from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined]

    actor = state.actors(error.actor_id) if error.actor_id else {}
    if not actor:
        return None, False
    reason = actor["DeathCause"].actor_died_error_context.reason
    return actor["Address"]["NodeID"] or None, bool(reason == ActorDiedErrorContext.WORKER_DIED)


# Without it: the next trial may find its GPU still full
def has_ended(actor: Any, timeout_s: float) -> bool:
    """Wait for a killed actor to be gone; return whether it is. Until: `ray.kill` can wait."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    call = actor.__ray_ready__.remote()
    try:
        ray.get(call, timeout=timeout_s)
    except GetTimeoutError:
        return False
    except RayError:  # nobody answers any more
        return True
    return True
