"""Plain functions and classes of Ray Tune in the process of a trial.

Without it only a Learner or a command can be searched, no plain function or class of Tune.

Tune would wrap a function at the driver, send it by pickling, and copy each checkpoint to a storage
of its own. Here a worker imports the function by its dotted path, and `FunctionSession` answers
what the function calls. Until: Tune takes a dotted path, and hands over what a function saves.

Tune would make a class an actor, with a folder below its own, and write its checkpoints there. Here
it is a plain object in the process of a trial. Until: Tune takes a folder for each trial.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, NamedTuple


class Report(NamedTuple):
    """A report of a plain function; checkpoint: a `tune.Checkpoint`, or None."""

    metrics: dict[str, Any]
    checkpoint: Any


class FunctionSession:
    """Runs a function in a thread that stops at each report; answers its calls of `ray.tune`.

    trial: the Trainable whose name and resources the function sees. folder: its trial's folder.
    checkpoint: the folder of the files to go on from, if any.
    """

    # Ray's name for each; that it has no rank says that this is no worker of Ray Train
    world_rank = local_rank = node_rank = world_size = local_world_size = None

    def __init__(
        self,
        function: Callable[[dict[str, Any]], Any],
        config: dict[str, Any],
        *,
        trial: Any,
        folder: Path,
        checkpoint: Path | None,
    ) -> None:
        from ray.train._internal import session
        from ray.tune import Checkpoint

        self.experiment_name = self.trial_name = trial.trial_name
        self.trial_id = trial.trial_id
        self.trial_resources = trial.trial_resources
        self.trial_dir = str(folder)
        self.loaded_checkpoint = checkpoint and Checkpoint.from_directory(checkpoint)
        self._events: SimpleQueue[Report | BaseException | None] = SimpleQueue()
        self._may_go_on = Semaphore(0)
        self._is_ending = False
        self._thread = Thread(target=self._run, args=(function, config), daemon=True)
        session._session = self  # type: ignore[assignment]

    def next_report(self) -> Report | None:
        """Let the function go on to its next report; None after its return. Raises its error."""
        if self._thread.ident is None:
            self._thread.start()
        self._may_go_on.release()
        event = self._events.get()
        if isinstance(event, BaseException):
            raise event
        return event

    def end(self, timeout_s: float) -> bool:
        """End the function at its report; return whether its thread has ended in time."""
        from ray.train._internal import session

        session._session = None
        self._is_ending = True
        self._may_go_on.release()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def report(self, metrics: dict[str, Any], checkpoint: Any = None, **_: Any) -> None:
        """Pass on what the function reports, and wait until it may go on."""
        self._events.put(Report({**metrics}, checkpoint))
        self._wait()

    def _wait(self) -> None:
        self._may_go_on.acquire()
        if self._is_ending:
            sys.exit()

    def _run(
        self, function: Callable[[dict[str, Any]], Any], config: dict[str, Any]
    ) -> None:
        from ray.tune.result import DEFAULT_METRIC

        try:
            self._wait()
            output = function(config)
            # What it yields or returns is reported, too, as in Tune
            for each in output if inspect.isgenerator(output) else [output]:
                if each:
                    self.report(
                        each if isinstance(each, dict) else {DEFAULT_METRIC: each}
                    )
        except BaseException as error:
            self._events.put(error)
        else:
            self._events.put(None)


def build_end_report() -> dict[str, Any]:
    """Return what a trial reports that has ended with its last report: nothing new."""
    from ray.tune.result import RESULT_DUPLICATE

    return {RESULT_DUPLICATE: True}


def create_trainable(
    kind: Any, config: dict[str, Any], *, trial: Any, folder: Path
) -> Any:
    """Return an object of the class `kind` that trains `config`, with `folder` as its logdir."""
    from ray.tune.result import TRIAL_INFO

    def _setup_logdir(self: Any) -> None:
        self._logdir = str(folder)

    _ = kind._setup_logdir
    named = {
        "_setup_logdir": _setup_logdir,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    in_folder = type(kind.__name__, (kind,), named)
    return in_folder(config={**config, TRIAL_INFO: trial._trial_info}, storage=None)


# Without it: metrics of Tune's own stand among those of a class, and some errors cannot be raised
def train_class(trained: Any) -> dict[str, Any]:
    """Train one iteration; return what `step` does. Raises what it raises: `train` copies it."""
    result: dict[str, Any] = trained.step()
    trained._iteration += 1
    return result


# Without it: a class cannot be resumed: it would start anew
def restore_class(trained: Any, checkpoint: Path, *, iteration: int) -> None:
    """Restore `trained` from the folder `checkpoint`, as after `iteration` steps."""
    trained.restore(str(checkpoint))
    trained._iteration = iteration
