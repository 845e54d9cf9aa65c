"""What a trainable of `tune.with_parameters` holds, kept for the next Ray.

Ray keeps it in its object store, and drops what it was made of: once that Ray has ended, nothing is
left. Until: it lasts as long as the function.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

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
