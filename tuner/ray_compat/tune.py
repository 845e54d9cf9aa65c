"""Changes of Ray Tune at the driver, for which it has no settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from tuner.ray_compat.names import Names, replace_names

_OVERDUE_S = 10.0  # after which a free worker goes to a trial whose own worker is late


# Without it: Ray Tune ends a worker that has no trial at the moment
@replace_names
def keep_workers(
    *, here: bool, spare: Callable[[], int | None] = lambda: None
) -> Names:
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

        def flush_cached_objects(
            self, force_all: bool = False
        ) -> Generator[Any, None, None]:
            """Yield the workers that are to end: those that are not spared, else none before the
            search does.
            """
            if force_all:
                yield from super().flush_cached_objects(force_all=True)
            elif (most := spare()) is not None:
                for key in list(self._cached_objects):
                    while self._num_cached_objects > most and self.has_cached_object(
                        key
                    ):
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
    # Schedulers get a wrapper
    controller = getattr(controller, "_tune_controller", controller)
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
