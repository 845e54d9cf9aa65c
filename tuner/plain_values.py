"""Plain values, as JSON and YAML have them, of a size that everything here can work with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 30  # levels of lists and mappings: whatever walks through them may recurse
LARGEST = 1e300  # what no float can hold breaks every calculation, and what has more digits text
MOST = 200_000  # values, each counted as often as it is referred to


def fault_of_values(value: object) -> str | None:
    """What keeps `value` from being plain and of a sane size, in words; None where nothing does.

    Text of a few lines can stand for billions of values, or hold itself, by YAML's references.
    """
    todo: list[tuple[object, int]] = [(value, 0)]
    count = 0
    while todo:
        value, depth = todo.pop()
        count += 1
        if count > MOST:
            return f"holds more than {MOST:,} values"
        if depth > DEEPEST:
            return f"is nested deeper than {DEEPEST} levels"
        if isinstance(value, dict):
            todo += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list):
            todo += [(inner, depth + 1) for inner in value]
        elif isinstance(value, int) and abs(value) > LARGEST:
            return f"holds a number beyond {LARGEST:g}"
        elif value is not None and not isinstance(value, bool | int | float | str):
            return f"holds a {type(value).__name__}, which JSON has not"
    return None


def is_number(value: object) -> bool:
    """Whether it is an int or a float; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def flat(values: Mapping[str, Any], separator: str = "/") -> dict[str, Any]:
    """Nested mappings as one, their names joined.

    >>> flat({"lr": 0.1, "augment": {"shift": 2}})
    {'lr': 0.1, 'augment/shift': 2}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inner = flat(value, separator)
            found |= {f"{name}{separator}{below}": leaf for below, leaf in inner.items()}
        else:
            found[name] = value
    return found
