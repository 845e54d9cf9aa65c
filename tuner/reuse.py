"""Keeps the worker processes of a search for its next trials, where Ray Tune would end them.

A worker takes seconds of a CPU before its first epoch; many a trial takes less than that in all.
What is replaced here of Ray Tune's, for the time of one `tune.run`, is not public.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.tune.execution import tune_controller as tune
from ray.tune.execution.class_cache import _ActorClassCache
from ray.tune.utils.object_cache import _ObjectCache


@contextmanager
def workers_kept(*, here: bool) -> Iterator[None]:
    """Have the `tune.run` within keep its workers; `here`: they are this machine's alone."""
    ours: dict[str, Any] = {"_ObjectCache": _Workers}
    if here:
        ours["_ActorClassCache"] = _PlainActors
    theirs = {name: getattr(tune, name) for name in ours}
    vars(tune).update(ours)
    try:
        yield
    finally:
        vars(tune).update(theirs)


class _Workers(_ObjectCache):
    """The workers that wait for a trial: all of them, for as long as there may be more trials."""

    @property
    def num_cached_objects(self) -> int:
        """None that Tune might give to a trial whose own worker is just starting.

        It would end that one as soon as it has started, and start another for the trial after.
        """
        return 0

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep the worker `obj`; Tune's own cache takes no more than there are pending trials."""
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
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
