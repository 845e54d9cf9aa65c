"""From a trainable's dotted path to the thing itself, and what can be told of it beforehand."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from tuner.errors import Fault

_METHODS = ("step", "state_dict", "load_state_dict")


def load_trainable(path: str) -> Any:
    """The class or function at `path` ("module:name"); importing it runs its module's code.

    Raises whatever the import raises, and AttributeError where the module has no such name.
    """
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def is_learner(trainable: object) -> bool:
    """Whether `trainable` is a class (so a Learner) and not a plain Tune function."""
    return inspect.isclass(trainable)


def trainable_fault(trainable: object) -> Fault | None:
    """Why `trainable` is neither a Learner class nor a plain `def train(config)`; None if it is."""
    if inspect.isclass(trainable):
        missing = [m for m in _METHODS if not callable(getattr(trainable, m, None))]
        if missing:
            return Fault(
                "trainable",
                f"class {trainable.__name__} is no Learner: it lacks "
                + ", ".join(f"{m}()" for m in missing),
            )
        return None
    if not callable(trainable):
        return Fault("trainable", "must be a Learner class or a function of config", trainable)
    return (
        None
        if _takes(trainable, {})
        else Fault(
            "trainable",
            "a function must take one argument, config",
            str(inspect.signature(trainable)),
        )
    )


def takes_split(trainable: Callable[..., Any]) -> bool:
    """Whether `trainable` is a Learner that can be built as one stage of several."""
    place = {"device": None, "rank": 0, "world_size": 2, "split": 2}
    return is_learner(trainable) and _takes(trainable, {}, {}, **place)


def declared_metrics(trainable: object) -> tuple[str, ...] | None:
    """The names in the trainable's `metrics` attribute; None where it declares none."""
    names = getattr(trainable, "metrics", None)
    return tuple(map(str, names)) if isinstance(names, tuple | list) else None


def _takes(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError:
        return False
    return True
