"""What it means that a process of a trial is gone, or that Ray could not run it."""

from __future__ import annotations

from ray.exceptions import NodeDiedError, OutOfMemoryError

from tuner.training.failures import Failure


class WorkerSpentError(RuntimeError):
    """Ends a worker's process that can train no further; says what it failed of."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.failure = Failure(kind, message, poisoned=True)


def death_of(error: BaseException | None) -> Failure:
    """The failure behind what Ray says of a process's death (None: it said nothing)."""
    cause = getattr(error, "cause", error)
    if isinstance(cause, WorkerSpentError):
        return cause.failure
    text = " ".join(str(error or "").split())
    if isinstance(error, NodeDiedError) or "its node has died" in text:
        return Failure("node_lost", "the node that it ran on is gone")
    if isinstance(error, OutOfMemoryError):
        return Failure("oom", text[:500])
    if error is None or "its worker process has died" in text:
        return Failure("crash", "its process is gone: it crashed, was killed, or ended itself")
    return Failure("crash", text[:500])
