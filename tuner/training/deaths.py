"""What it means that a process of a trial is gone, or that Ray could not run it."""

from __future__ import annotations

from ray.exceptions import NodeDiedError, OutOfMemoryError

from tuner.training.failures import Failure
from tuner.training.machine_memory import why_ended


class WorkerSpentError(RuntimeError):
    """Ends a worker's process that is to train no further; says what its trial failed of."""

    def __init__(self, kind: str, message: str, poisoned: bool) -> None:
        super().__init__(kind, message, poisoned)
        self.failure = Failure(kind, message, poisoned)


class WorkerGrownError(RuntimeError):
    """Ends a worker's process that has kept too much of its trials; the next one is not begun."""


def is_recycled(error: BaseException | None) -> bool:
    """Whether a trial ended only because its process was not to be used again."""
    return isinstance(getattr(error, "cause", error), WorkerGrownError)


def death_of(error: BaseException | None) -> Failure:
    """The failure behind what Ray says of a process's death (None: it said nothing)."""
    cause = getattr(error, "cause", error)
    if isinstance(cause, WorkerSpentError):
        return cause.failure
    text = " ".join(str(error or "").split())
    if isinstance(error, NodeDiedError) or "its node has died" in text:
        return Failure("node_lost", "the node that it ran on is gone")
    ended = why_ended(str(error or ""))
    if ended:
        return Failure("oom", ended)
    if isinstance(error, OutOfMemoryError):
        return Failure("oom", text[:500])
    if error is None or "its worker process has died" in text:
        return Failure("crash", "its process is gone: it crashed, was killed, or ended itself")
    return Failure("crash", text[:500])
