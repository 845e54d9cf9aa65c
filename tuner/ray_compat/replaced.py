"""Replaces names of Ray's modules for the time of a context."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, ParamSpec

P = ParamSpec("P")
Names = Mapping[ModuleType, Mapping[str, Any]]


def replacing(names: Callable[P, Names]) -> Callable[P, AbstractContextManager[None]]:
    """Turn a function that returns new values for names of Ray's modules into a context manager.

    Within the context the names have these values.
    """

    @functools.wraps(names)
    def within(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[None]:
        return replaced(names(*args, **kwargs))

    return within


@contextmanager
def replaced(names: Names) -> Iterator[None]:
    """Set the given names of each module, and restore them at the end.

    Raises AttributeError, before any is set, for a name that a module lacks.
    """
    before = {
        module: {name: getattr(module, name) for name in new} for module, new in names.items()
    }
    for module, new in names.items():
        vars(module).update(new)
    try:
        yield
    finally:
        for module, old in before.items():
            vars(module).update(old)
