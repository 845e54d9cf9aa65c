"""The register of what tuner uses of Ray's undocumented side, and what is done where Ray lacks it.

A piece that another Ray lacks is left out with one warning that says what is lost, and the search
goes on; where it cannot, one error says the same. What changes Ray's behaviour is left out of every
Ray that was not tried.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

from tuner.errors import UnknownRayError

F = TypeVar("F", bound=Callable[..., Any])
Names = Mapping[ModuleType, Mapping[str, Any]]

TRIED = "2.60"  # the version of Ray that all pieces were tried with, without its patch release
TRIED_EXACTLY = "2.60.0"  # where Ray cannot have changed, so that an error is a fault of ours
PIECES: dict[str, str] = {}  # the name of each piece -> what is lost without it
TRIED_ONLY: set[str] = set()  # the pieces that are off for a Ray that was not tried

# What comes of a name or an argument that this Ray lacks
_CHANGED = (ImportError, AttributeError, TypeError, KeyError)

_log = logging.getLogger(__name__)
_warned: set[str] = set()


def installed() -> str:
    """The version of Ray that is running."""
    import ray

    return ray.__version__


def is_tried(version: str) -> bool:
    """Return whether the pieces were tried with this version of Ray."""
    return version.startswith(f"{TRIED}.")


def warn_if_untried() -> None:
    """Say at the start of a search that Ray is of another version, if it is."""
    if not is_tried(installed()):
        versions = f"Ray {installed()} is installed, and tuner was tried with {TRIED}"
        warn_once("version", f"{versions}: `tuner doctor` lists what may be lost")


def piece(
    *, lost: str, otherwise: Any = None, required: bool = False, tried_only: bool = False
) -> Callable[[F], F]:
    """Register a function of undocumented Ray: where Ray has changed, it returns `otherwise`.

    required: nothing sensible can be returned; it raises UnknownRayError instead. tried_only: it
    changes Ray's behaviour, so that it does nothing to a Ray that was not tried.
    """

    def register(function: F) -> F:
        name = function.__name__
        PIECES[name] = lost
        if tried_only:
            TRIED_ONLY.add(name)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                if tried_only and not is_tried(installed()):
                    raise AttributeError(f"it is not {TRIED}")
                return function(*args, **kwargs)
            except _CHANGED as error:
                if installed() == TRIED_EXACTLY:
                    raise
                text = f"this Ray ({installed()}) is not as {name} needs it ({error}): {lost}"
                if required:
                    raise UnknownRayError(text) from error
                warn_once(name, text)
                return otherwise

        return guarded  # type: ignore[return-value]

    return register


def replacing(*, lost: str) -> Callable[[Callable[..., Names]], Callable[..., Any]]:
    """Register a function that returns which of Ray's names to replace by what, in which module.

    It becomes a context manager, within which they are replaced.
    """

    def register(function: Callable[..., Names]) -> Callable[..., Any]:
        @piece(lost=lost, otherwise={}, tried_only=True)
        @functools.wraps(function)
        def known(*args: Any, **kwargs: Any) -> Names:
            names = function(*args, **kwargs)
            for module, own in names.items():
                for name in own:
                    getattr(module, name)
            return names

        @functools.wraps(function)
        @contextmanager
        def within(*args: Any, **kwargs: Any) -> Iterator[None]:
            with replaced(known(*args, **kwargs)):
                yield

        return within

    return register


@contextmanager
def replaced(names: Names) -> Iterator[None]:
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


def warn_once(name: str, text: str) -> None:
    """Log `text` as a warning, unless this process has said something under this name."""
    if name not in _warned:
        _warned.add(name)
        _log.warning("%s", text)
