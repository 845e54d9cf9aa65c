"""Plain values, as JSON and YAML have them, of a size that everything here can work with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

DEEPEST = 30  # levels of lists and mappings: whatever walks through them may recurse
LARGEST = 1e300  # what no float can hold breaks every calculation, and what has more digits text
MOST = 200_000  # values of a document
CONFIG_LEVELS = 20  # of lists and mappings in a config: every reader recurses into it
CONFIG_BYTES = 15 << 20  # of a config as JSON: a journal's line takes 1 MiB more

_MARKS = "[{,:"  # each comes with a value, but where a list or a mapping is empty
_STRING_OR_MARK = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,:]', re.DOTALL)


def fault_of_json(text: str, *, most: int = MOST) -> str | None:
    """The fault of JSON that holds far more than `most` values, before any are built, or None.

    A byte of text can take fifty in memory. The count is rough; `fault_of_values` is exact.
    """
    if sum(map(text.count, _MARKS)) <= 2 * most:
        return None
    marks = (found for found in _STRING_OR_MARK.finditer(text) if found[0][0] != '"')
    return too_many(most) if next(islice(marks, 2 * most, None), None) else None


def parse_json(
    data: bytes, *, what: str = "JSON", most: int = MOST, decode: Callable[[str], Any] = json.loads
) -> Any:
    """The value of a JSON text. Raises ValueError for one that `decode` refuses, or far too large.

    what: the user's word for it, where it is none. most: as `fault_of_json` takes it.
    """
    try:
        text = data.decode()
        fault = fault_of_json(text, most=most)
        if fault is None:
            return decode(text)
    except RecursionError:
        fault = too_deep()
    except ValueError as error:
        raise ValueError(f"not {what}") from error
    raise ValueError(f"it {fault}")


def too_deep() -> str:
    """The fault of what is nested deeper than DEEPEST."""
    return f"is nested deeper than {DEEPEST} levels"


def too_many(most: int) -> str:
    """The fault of what holds more than `most` values."""
    return f"holds more than {most:,} values"


def fault_of_values(value: object, *, most: int = MOST) -> str | None:
    """Why `value` is not plain or too large, in words, or None.

    YAML's references can make a few lines billions of values, or endless. most: values and names
    of mappings, each counted at every reference.
    """
    todo: list[tuple[object, int]] = [(value, 0)]
    count = 0
    while todo:
        value, depth = todo.pop()
        count += 1
        if count > most:
            return too_many(most)
        if depth > DEEPEST:
            return too_deep()
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
    """Whether it is an int or a float, but no bool."""
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
