"""Ray Tune: changes at the driver for which it has no settings, and trainables inside of a trial.

Without the latter only a Learner or a command can be searched, no plain function or class of Tune.

Tune would wrap a function at the driver, send it by pickling, and copy each checkpoint to a storage
of its own. Here a worker imports the function by its dotted path, and `FunctionSession` answers
what the function calls. Until: Tune takes a dotted path, and hands over what a function saves.

Tune would make a class an actor, with a folder below its own, and write its checkpoints there. Here
it is a plain object in the process of a trial. Until: Tune takes a folder for each trial.

What `tune.with_parameters` holds Ray keeps in its object store, and drops what it was made of: once
that Ray has ended, nothing is left. Until: it lasts as long as the function.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tuner.ray_compat.names import Names, replace_names

_OVERDUE_S = 10.0  # after which a free worker goes to a trial whose own worker is late


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

    def _run(self, function: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> None:
        from ray.tune.result import DEFAULT_METRIC

        try:
            self._wait()
            output = function(config)
            # What it yields or returns is reported, too, as in Tune
            for each in output if inspect.isgenerator(output) else [output]:
                if each:
                    self.report(each if isinstance(each, dict) else {DEFAULT_METRIC: each})
        except BaseException as error:
            self._events.put(error)
        else:
            self._events.put(None)


def build_end_report() -> dict[str, Any]:
    """Return what a trial reports that has ended with its last report: nothing new."""
    from ray.tune.result import RESULT_DUPLICATE

    return {RESULT_DUPLICATE: True}


def create_trainable(kind: Any, config: dict[str, Any], *, trial: Any, folder: Path) -> Any:
    """Return an object of the class `kind` that trains `config`, with `folder` as its logdir."""
    from ray.tune.result import TRIAL_INFO

    def _setup_logdir(self: Any) -> None:
        self._logdir = str(folder)

    _ = kind._setup_logdir
    named = {"_setup_logdir": _setup_logdir, "__module__": kind.__module__, "__doc__": kind.__doc__}
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


_known: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def record_parameters(trainable: Any) -> None:
    """Keep what `trainable` holds, unless Ray has it already."""
    for registry in _find_registries(trainable):
        if registry.to_flush:
            _known[registry] = dict(registry.to_flush)


def restore_parameters(trainable: Any) -> None:
    """Hand what `trainable` holds to the Ray of the moment, if there is one."""
    import ray

    for registry in _find_registries(trainable):
        if registry in _known:
            registry.references.clear()
            registry.to_flush.update(_known[registry])
            if ray.is_initialized():
                registry.flush()


def _find_registries(trainable: Any) -> Iterator[Any]:
    module: Any = sys.modules.get("ray.tune.registry")  # imported by what has called it
    if module is None:
        return
    while isinstance(trainable, partial):
        trainable = trainable.func
    classes = trainable.__mro__ if isinstance(trainable, type) else ()
    for function in (trainable, *(vars(each).get("setup") for each in classes)):
        for cell in getattr(function, "__closure__", None) or ():
            if isinstance(cell.cell_contents, module._ParameterRegistry):
                yield cell.cell_contents


# Without it: Ray Tune ends a worker that has no trial at the moment
@replace_names
def keep_workers(*, here: bool, spare: Callable[[], int | None] = lambda: None) -> Names:
    """Have `tune.run` keep its worker processes for later trials; `here`: all are on this machine.

    spare: how many may wait for a trial at the moment; None: all. A worker takes seconds of a CPU
    before its first epoch, and many a trial takes less in all. Until: Tune keeps workers while more
    trials may come.
    """
    import ray
    from ray.tune.execution import tune_controller
    from ray.tune.execution.class_cache import _ActorClassCache
    from ray.tune.utils.object_cache import _ObjectCache

    class Workers(_ObjectCache):
        """The workers without a trial: all of them, for as long as there may be more trials."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._changed = time.monotonic()

        @property
        def num_cached_objects(self) -> int:
            """How many Tune may give to a trial whose own worker has been asked for already.

            At first none: Tune would end the worker that is just starting, and start another for
            the next trial. All of them once they are overdue: what the trial's own worker needs may
            never come free, as on a cluster that others use, too.
            """
            overdue = time.monotonic() > self._changed + _OVERDUE_S
            return self._num_cached_objects if overdue else 0

        def cache_object(self, key: Any, obj: Any) -> bool:
            """Keep a worker; Tune's own cache keeps no more than there are pending trials."""
            self._cached_objects[key].append(obj)
            self._num_cached_objects += 1
            self._changed = time.monotonic()
            return True

        def flush_cached_objects(self, force_all: bool = False) -> Generator[Any, None, None]:
            """Yield the workers that are to end: those that are not spared, else none before the
            search does.
            """
            if force_all:
                yield from super().flush_cached_objects(force_all=True)
            elif (most := spare()) is not None:
                for key in list(self._cached_objects):
                    while self._num_cached_objects > most and self.has_cached_object(key):
                        yield self.pop_cached_object(key)

    class PlainActors(_ActorClassCache):
        """Trainables as actors that may run in the workers that Ray has started ahead.

        Tune's own actors ask for environment variables, which only a new process could have. A
        worker of this machine inherits them from the driver.
        """

        def get(self, trainable_cls: Any) -> Any:
            if trainable_cls not in self._cache:
                self._cache[trainable_cls] = ray.remote(trainable_cls)
            return self._cache[trainable_cls]

    names: dict[str, Any] = {"_ObjectCache": Workers}
    if here:
        names["_ActorClassCache"] = PlainActors
    return {tune_controller: names}


# Without it: a search imports mlflow and wandb where they are installed, for 2.4 s
@replace_names
def skip_usage_tags() -> Names:
    """Keep `tune.run` from counting the callbacks of its own integrations, which it imports for it.

    The counts are for Ray's usage statistics, which are off. Until: Tune asks whether they are on.
    """
    from ray.air._internal import usage

    return {usage: {"tag_callbacks": lambda callbacks: False}}


# Without it: after Ctrl-C in a long epoch, workers are waited for twice as long
def limit_cleanup(controller: Any, seconds: float) -> None:
    """Have Tune wait at most `seconds` for its workers when the search ends.

    By then what a worker has reported is safe, and what it has not is run again. Until:
    `TUNE_FORCE_TRIAL_CLEANUP_S` shortens it.
    """
    controller = getattr(controller, "_tune_controller", controller)  # schedulers get a wrapper
    controller._actor_force_cleanup_timeout = seconds


# Without it: a search that is paused keeps its processes and what they have reserved
def limit_pending(controller: Any, count: int) -> None:
    """Have Tune ask for no more than so many trials before the first of them runs.

    With 0 its loop goes on turning where there is nothing to run; else it would do nothing but ask
    for the next trial, for ten minutes. Until: `update_max_pending_trials` takes a 0.
    """
    controller = getattr(controller, "_tune_controller", controller)
    controller._max_pending_trials = count


# Without it: the driver's memory grows with each metric of each trial
def drop_metrics(trial: Any) -> None:
    """Drop the statistics that Tune keeps of each metric of a trial that has ended.

    They are most of the driver's memory, and the journal has the metrics. Until: Tune drops them.
    """
    metadata = trial.run_metadata
    metadata.metric_analysis.clear()
    metadata.metric_n_steps.clear()
    metadata.invalidate_cache()


# Without it: of a trial that is stopped between two rungs the checkpoint may be seconds older
def find_worker(trial: Any) -> Any:
    """Return the actor that runs Tune's `trial`; it waits to be asked after each report.

    Until: a callback may call a method of the trainable.
    """
    return trial.temporary_state.ray_actor
