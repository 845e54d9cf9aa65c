"""Trainables of a script, notebook or closure, which workers cannot import by name.

Ray pickles the object with its code; a written spec has its name, marked "(by value)".
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

_MARK = " (by value)"
_SCRIPT = ("__main__", "__mp_main__")


class ByValue(str):
    """The text `module:name (by value)`, and the trainable that it stands for."""

    _value: Any
    _pickled: bytes | None

    def __new__(cls, value: Any, pickled: bytes | None = None, text: str = "") -> ByValue:
        from tuner import ray_compat

        self = super().__new__(cls, text or _text_of(value))
        self._value, self._pickled = value, pickled
        ray_compat.note_parameters(value)
        return self

    @property
    def value(self) -> Any:
        """The trainable; a worker unpickles it on first use."""
        if self._pickled is not None:
            from ray import cloudpickle

            self._value, self._pickled = cloudpickle.loads(self._pickled), None
        return self._value

    def __reduce__(self) -> Any:
        return ByValue, (None, _pickled(self.value), str(self))

    def __deepcopy__(self, memo: object) -> ByValue:
        return self


def is_by_value(text: str) -> bool:
    return text.endswith(_MARK)


def bare_name(text: str) -> str:
    """The name of a trainable within its module."""
    return text.removesuffix(_MARK).partition(":")[2]


def is_importable(value: Any) -> bool:
    """Whether another process can import `value` by its module and name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module in _SCRIPT:
        return False
    imported: Any = sys.modules.get(module)
    for part in name.split("."):
        imported = getattr(imported, part, None)
    return imported is value


def pickling_fault(trainable: ByValue) -> str | None:
    """Why the trainable cannot be pickled for the workers, or None."""
    try:
        _pickled(trainable.value)
    except Exception as error:  # any that the objects in it raise
        return f"{type(error).__name__}: {error}"
    return None


def python_argument(trainable: str) -> str:
    """The Python argument that passes the trainable again: `trainable=train`."""
    return f"trainable={bare_name(trainable)}"


def _pickled(value: Any) -> bytes:
    from ray import cloudpickle

    from tuner import ray_compat

    ray_compat.renew_parameters(value)
    pickled: bytes = cloudpickle.dumps(value)
    return pickled


def _text_of(value: Any) -> str:
    while isinstance(value, partial):
        value = value.func
    module = getattr(value, "__module__", None) or "__main__"
    return f"{module}:{getattr(value, '__name__', None) or type(value).__name__}{_MARK}"
