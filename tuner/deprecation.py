"""Names of an earlier version that warn before they go."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def rename_attributes(**names: str) -> Callable[[object, str], Any]:
    """The `__getattr__` of a class whose attributes have new names, given as old=new.

    An old name gives the attribute of the new one, with a DeprecationWarning.
    """

    def find_attribute(self: object, name: str) -> Any:
        kind = type(self).__name__
        if name not in names:
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        text = f"{kind}.{name} is {names[name]} since tuner 0.2, and goes with 0.3"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(self, names[name])

    return find_attribute
