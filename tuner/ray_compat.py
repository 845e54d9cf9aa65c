"""What is known of Ray that is not public: names of its processes, names to replace for a time."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

DAEMONS = ("gcs_server", "raylet")  # without one of them nothing goes on
AGENTS = ("ray::RuntimeEnv", "ray::Dashboard")  # what their titles begin with; a raylet needs them
IDLE = "ray::IDLE"  # the title of a worker without work
WORKER = "ray::"  # what the titles of all workers begin with, and those of the agents

TESTED = "2.60."  # what the version of Ray begins with


def is_known() -> bool:
    """Whether Ray is of the version whose inner names this was tested with."""
    import ray

    return ray.__version__.startswith(TESTED)


def admit_storage(storage: Any) -> None:
    """Let Ray keep a function's checkpoint in the folder of its `storage` on this machine.

    It looks there for a mark that the driver has set, in what it takes for a shared folder.
    """
    from ray.train._internal.storage import _VALIDATE_STORAGE_MARKER_FILENAME

    folder = Path(storage.experiment_fs_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _VALIDATE_STORAGE_MARKER_FILENAME).touch()


@contextmanager
def replaced(names: Mapping[ModuleType, Mapping[str, Any]]) -> Iterator[None]:
    """Within it the given names of each module are those given, after it what they were."""
    before = {
        module: {name: getattr(module, name) for name in own} for module, own in names.items()
    }
    for module, own in names.items():
        vars(module).update(own)
    try:
        yield
    finally:
        for module, own in before.items():
            vars(module).update(own)


# --- within a trial ---
# Tried with Ray 2.60. What is lost without each piece stands in its docstring.

NODE_DIED = "its node has died"  # in the message of a RayActorError; else a lost node is a crash
PROCESS_DIED = "its worker process has died"  # likewise; else its long text is what a user reads


def pid_in(message: str) -> int | None:
    """The process of whose death an error's message tells.

    Without it the driver cannot tell which note a process has left of why it ends, and a worker
    that was ended for want of memory is a crash.
    """
    pid = re.search(r"\bpid: (\d+)", message)
    return int(pid[1]) if pid else None


def actor_of(error: Any) -> tuple[str | None, bool]:
    """The node of the actor that a RayActorError is about, and whether its process has died.

    The node is None where the actor was never placed. A process that Ray has ended because nobody
    needed it any more has not died. Without it a trial that was cut off with its node counts as
    crashed, and may not be tried again.
    """
    from ray._private import state
    from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined]

    actor = state.actors(error.actor_id) if error.actor_id else {}
    node_id = actor.get("Address", {}).get("NodeID") or None
    if "DeathCause" not in actor:
        return node_id, False
    reason = actor["DeathCause"].actor_died_error_context.reason
    return node_id, bool(reason == ActorDiedErrorContext.WORKER_DIED)


def draining_nodes() -> set[str]:
    """The ids of nodes that are about to leave; raises RayError where the head does not answer.

    Without it a trial begins on a node that leaves, and is tried again on another.
    """
    from ray._private.worker import global_worker

    return set(global_worker.gcs_client.get_draining_nodes())  # type: ignore[attr-defined]


def when_ended(actor: Any) -> Any:
    """What `ray.get` waits on until a killed actor is gone, when it raises RayActorError.

    Without it the next trial may find its GPU still full.
    """
    return actor.__ray_ready__.remote()


def say_nothing_of_slow_starts() -> None:
    """Leave out Tune's advice, in the log of a trial that starts slowly, to reuse actors.

    They are reused. Without it each first trial of a process gets that advice.
    """
    logging.getLogger("ray.tune.trainable.trainable").setLevel(logging.WARNING)


def function_session() -> Any:
    """The session that a plain Tune function reports to, in this process; None before the first.

    Without it a process cannot run a second function, nor one continue from its checkpoint.
    """
    from ray.train._internal.session import get_session

    return get_session()


def continue_from(session: Any, checkpoint: Path) -> None:
    """Let `tune.get_checkpoint()` return the files of the folder `checkpoint`.

    Without it a function that is resumed starts anew: Tune knows nothing of our checkpoints.
    """
    from ray.tune import Checkpoint

    session.loaded_checkpoint = Checkpoint.from_directory(checkpoint)


def call_function(function: Any, trial: Any, config: dict[str, Any]) -> Any:
    """Call a plain Tune function as Tune does, within the Trainable `trial`.

    Tune would wrap the function at the driver, and send it by pickling. Here a worker imports it by
    its dotted path.
    """
    from ray.tune.trainable import wrap_function

    return wrap_function(function)._trainable_func(trial, config)


def is_stopped(session: Any) -> bool:
    """Whether Ray is ending the function's thread, which it does by a SystemExit within it."""
    return session is None or bool(session.stop_event.is_set())


def reported_by_function(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a plain function reported, without what Ray adds; None once it has returned.

    Without it Ray's additions would be journaled as metrics.
    """
    from ray.air.constants import TIMESTAMP
    from ray.tune.result import RESULT_DUPLICATE, SHOULD_CHECKPOINT

    if RESULT_DUPLICATE in result:
        return None
    rays = (TIMESTAMP, SHOULD_CHECKPOINT, "checkpoint_dir_name")
    return {name: value for name, value in result.items() if name not in rays}


def saved_by_function(trial: Any) -> Path | None:
    """The folder of the checkpoint that the function reported last; None where it had none.

    `trial` is a FunctionTrainable. Without it what a function saves cannot be journaled.
    """
    last = trial._last_training_result
    return Path(last.checkpoint.path) if last and last.checkpoint else None


def error_of_function(error: BaseException) -> BaseException:
    """What the function raised, without what Ray wraps around it.

    Without it every failure of a function is called StartTraceback.
    """
    from ray.air._internal.util import skip_exceptions

    return skip_exceptions(error) if isinstance(error, Exception) else error
