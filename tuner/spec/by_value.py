"""Trainables of a script, notebook or closure, which Ray pickles with their code.

Workers cannot import them by name. A written spec has their name, marked "(by value)".
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

    def __new__(
        cls, value: Any, pickled: bytes | None = None, text: str = ""
    ) -> ByValue:
        from tuner import ray_compat

        self = super().__new__(cls, text or _format_by_value(value))
        self._value = value
        self._pickled = pickled
        ray_compat.record_parameters(value)
        return self

    @property
    def value(self) -> Any:
        """The trainable; a worker unpickles it on first use."""
        if self._pickled is not None:
            from ray import cloudpickle

            self._value = cloudpickle.loads(self._pickled)
            self._pickled = None
        return self._value

    def __reduce__(self) -> Any:
        return ByValue, (None, _pickle(self.value), str(self))

    def __deepcopy__(self, memo: object) -> ByValue:
        return self


def is_by_value(text: str) -> bool:
    return text.endswith(_MARK)


def extract_name(text: str) -> str:
    return text.removesuffix(_MARK).partition(":")[2]


def is_importable(value: Any) -> bool:
    """Whether another process can import `value` by its module and name."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not module or not name or module in _SCRIPT:
        return False
    imported: Any = sys.modules.get(module)
    for part in name.split("."):
        imported = getattr(imported, part, None)
    return imported is value


def find_pickling_fault(trainable: ByValue) -> str | None:
    """Why the trainable cannot be pickled for the workers, or None."""
    try:
        _pickle(trainable.value)
    except Exception as error:  # any that the objects in it raise
        return f"{type(error).__name__}: {error}"
    return None


def format_python_argument(trainable: str) -> str:
    """The Python argument that passes the trainable again: `trainable=train`."""
    return f"trainable={extract_name(trainable)}"


def _pickle(value: Any) -> bytes:
    from ray import cloudpickle

    from tuner import ray_compat

    ray_compat.restore_parameters(value)
    pickled: bytes = cloudpickle.dumps(value)
    return pickled


def _format_by_value(value: Any) -> str:
    while isinstance(value, partial):
        value = value.func
    module = getattr(value, "__module__", None) or "__main__"
    return f"{module}:{getattr(value, '__name__', None) or type(value).__name__}{_MARK}"
