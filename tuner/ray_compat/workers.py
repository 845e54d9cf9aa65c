"""Actors that have died, and workers that do not answer."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from tuner.ray_compat.names import Names, replace_names

# Without it: the loss of a node, or too little memory, is taken for a crash
NODE_DIED = "its node has died"  # in the message of a RayActorError
PROCESS_DIED = "its worker process has died"  # likewise
PID = re.compile(r"\bpid: (\d+)")  # likewise: of the process that has died


# Without it: a trial that was cut off with its node is a crash, and may not be tried again
def describe_actor_death(error: Any) -> tuple[str | None, bool]:
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
    return actor["Address"]["NodeID"] or None, bool(
        reason == ActorDiedErrorContext.WORKER_DIED
    )


# Without it: the next trial may find its GPU still full
def has_ended(actor: Any, timeout_s: float) -> bool:
    """Wait for a killed actor to be gone; return whether it is. Until: `ray.kill` can wait."""
    import ray

    answered, _ = ray.wait([actor.__ray_ready__.remote()], timeout=timeout_s)
    return bool(answered)  # by an error


START = "start"  # a worker's first call: its actor is made
RESET = "reset"  # the call that begins another trial

_LOOK_EVERY_S = 0.25
_PROCESS_S = 15.0  # for a new process to start, and to import what its trial needs
# Counted between two looks: a driver that was itself stopped heard nobody
_MOST_S = 2.0


@dataclass
class Call:
    """A worker's last call: START, RESET, or another method of its trainable.

    made: when, as `time.monotonic` counts. silent_s: how long the driver has listened for the
    answer. ended: whether it has then ended the worker.
    """

    method: str
    made: float
    silent_s: float = 0.0
    ended: bool = False


class WorkerWatch:
    """The last call of each worker; none may go unanswered for more than `limit_s` seconds.

    For a start there are `start_s` more, since a process has to come up before a trial can begin.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.start_s = _PROCESS_S
        self.calls: dict[str, Call] = {}  # by the id of the worker's actor
        self.starting = 0  # workers whose process is starting

    def find_call(self, error: BaseException | None) -> Call | None:
        """The last call of the actor that `error` says has died, or None if unknown."""
        return self.calls.get(getattr(error, "actor_id", None) or "")


# Without it: a worker that is stopped, or hangs between two trials, is waited for forever
@replace_names
def watch_workers(watch: WorkerWatch) -> Names:
    """Have `tune.run` end each worker that leaves a call unanswered for too long.

    A worker ends itself when its trial hangs. It cannot where it is stopped or waits for a disk,
    where its trial has called that off, or between two trials. Until: Tune has a time limit for
    what it asks of its actors.
    """
    import ray
    from ray.air.execution._internal import RayActorManager
    from ray.tune.execution import tune_controller

    class Watched(RayActorManager):
        """Tune's manager of actors, which also checks the workers whenever it is called."""

        _looked = time.monotonic()

        def next(self, timeout: Any = None) -> bool:
            if time.monotonic() - self._looked >= _LOOK_EVERY_S:
                self._check_workers()
            return bool(super().next(timeout))

        def schedule_actor_task(
            self, tracked_actor: Any, method_name: str, *args: Any, **kwargs: Any
        ) -> Any:
            if actor := self._live_actors_to_ray_actors_resources.get(tracked_actor):
                watch.calls[_read_actor_id(actor[0])] = Call(
                    method_name, time.monotonic()
                )
            return super().schedule_actor_task(
                tracked_actor, method_name, *args, **kwargs
            )

        def _try_start_actors(self, max_actors: int | None = None) -> int:
            started = super()._try_start_actors(max_actors)
            for actor, _ in (
                self._live_actors_to_ray_actors_resources.values() if started else ()
            ):
                watch.calls.setdefault(
                    _read_actor_id(actor), Call(START, time.monotonic())
                )
            return started

        def _check_workers(self) -> None:
            now = time.monotonic()
            passed_s = min(now - self._looked, _MOST_S)
            self._looked = now
            live = self._live_actors_to_ray_actors_resources.values()
            watch.starting = sum(
                watch.calls[_read_actor_id(actor)].method == START for actor, _ in live
            )
            for tracked, (
                actor,
                _,
            ) in self._live_actors_to_ray_actors_resources.items():
                pending = self._tracked_actors_to_task_futures.get(tracked, set())
                pending = pending | self._tracked_actors_to_state_futures.get(
                    tracked, set()
                )
                call = watch.calls[_read_actor_id(actor)]
                if not pending or call.ended:
                    continue
                call.silent_s += passed_s
                limit_s = watch.limit_s + (watch.start_s if call.method == START else 0)
                # Tune keeps those of a trial's earlier calls, and may not have read the last answer
                some = list(pending)
                if (
                    call.silent_s >= limit_s
                    and ray.wait(some, num_returns=len(some), timeout=0)[1]
                ):
                    call.ended = True
                    ray.kill(actor)  # also ends a stopped process, within seconds

    def _read_actor_id(actor: Any) -> str:
        return str(actor._actor_id.hex())

    return {tune_controller: {"RayActorManager": Watched}}
