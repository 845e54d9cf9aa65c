"""How names of Ray that are not public are replaced: for a time, in a Ray that is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

TESTED = "2.60."  # what the version of Ray begins with


def is_known() -> bool:
    """Whether Ray is of the version whose inner names this was tested with."""
    import ray

    return ray.__version__.startswith(TESTED)


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
