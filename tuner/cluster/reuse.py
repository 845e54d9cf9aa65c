"""Keeps the worker processes of a search for its next trials, where Ray Tune would end them.

A worker takes seconds of a CPU before its first epoch; many a trial takes less than that in all.
What is replaced here of Ray Tune's, for the time of one `tune.run`, is not public: of a Ray that is
not known workers are reused as Tune itself does it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.tune.execution import tune_controller as tune
from ray.tune.execution.class_cache import _ActorClassCache
from ray.tune.utils.object_cache import _ObjectCache

from tuner import ray_compat as ray_internals

_LONG_S = 10.0  # for a worker to wait while a trial is pending: that one's own does not come soon


@contextmanager
def workers_kept(*, here: bool) -> Iterator[None]:
    """Have the `tune.run` within keep its workers; `here`: they are this machine's alone."""
    if not ray_internals.is_known():
        yield
        return
    ours: dict[str, Any] = {"_ObjectCache": _Workers}
    if here:
        ours["_ActorClassCache"] = _PlainActors
    with ray_internals.replaced({tune: ours}):
        yield


class _Workers(_ObjectCache):
    """The workers that wait for a trial: all of them, for as long as there may be more trials."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._changed = time.monotonic()

    @property
    def num_cached_objects(self) -> int:
        """How many Tune may give to a trial whose own worker has been asked for already.

        At first none: Tune would end the one that is just starting, and start another for the trial
        after. All, once they have waited long: what the other one needs may never come free, as on
        a cluster that others use, too.
        """
        return self._num_cached_objects if time.monotonic() > self._changed + _LONG_S else 0

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep the worker `obj`; Tune's own cache takes no more than there are pending trials."""
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        self._changed = time.monotonic()
        return True

    def flush_cached_objects(self, force_all: bool = False) -> Generator[Any, None, None]:
        """The workers that are to end: none before the search does."""
        if force_all:
            yield from super().flush_cached_objects(force_all=True)


class _PlainActors(_ActorClassCache):
    """Trainables as Ray actors that may run in the workers that Ray has started ahead.

    Tune's own ask for environment variables, which only a new process could give them. A worker
    of this machine inherits these from the driver.
    """

    def get(self, trainable_cls: Any) -> Any:
        """The actor class of a trainable."""
        if trainable_cls not in self._cache:
            self._cache[trainable_cls] = ray.remote(trainable_cls)
        return self._cache[trainable_cls]
