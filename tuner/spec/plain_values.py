"""Plain values, as JSON and YAML have them, of a size that everything here can work with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

DEEPEST = 30  # levels of lists and mappings: readers recurse into them
TOO_DEEP = f"is nested deeper than {DEEPEST} levels"
# What no float can hold breaks every calculation, and what has more digits text
LARGEST = 1e300
MOST = 200_000  # values of a document
CONFIG_LEVELS = 20  # of lists and mappings in a config: every reader recurses into it
CONFIG_BYTES = 15 << 20  # of a config as JSON: a journal's line takes 1 MiB more


def parse_json(
    data: bytes,
    *,
    what: str = "JSON",
    most: int = MOST,
    decode: Callable[[str], Any] = json.loads,
) -> Any:
    """The value of a JSON text. Raises ValueError for one that `decode` refuses, or far too large.

    what: the noun for such a text in the error. most: a text with more than twice as many marks
    (brackets, commas, colons) is refused before it is built: a byte of it can take fifty in memory.
    """
    if sum(map(data.count, (b"[", b"{", b",", b":"))) > 2 * most:
        raise ValueError(f"it {describe_excess(most)}")
    try:
        return decode(data.decode())
    except RecursionError:
        raise ValueError(f"it {TOO_DEEP}") from None
    except ValueError as error:
        raise ValueError(f"not {what}") from error


def describe_excess(most: int) -> str:
    return f"holds more than {most:,} values"


def find_value_fault(value: object, *, most: int = MOST) -> str | None:
    """Why `value` is not plain or too large (`most` values and names), or None."""
    todo: list[tuple[object, int]] = [(value, 0)]
    count = 0
    while todo:
        value, depth = todo.pop()
        count += 1
        if count > most:
            return describe_excess(most)
        if depth > DEEPEST:
            return TOO_DEEP
        if isinstance(value, dict):
            todo += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list):
            todo += [(inner, depth + 1) for inner in value]
        elif isinstance(value, int) and abs(value) > LARGEST:
            return f"holds a number beyond {LARGEST:g}"
        elif value is not None and not isinstance(value, bool | int | float | str):
            return f"holds a {type(value).__name__}, which JSON has not"
    return None


def convert_scalar(value: Any) -> Any:
    """A subclass of a plain scalar, or NumPy's, as the plain one; any other value as it is.

    Enums with a base of text are the text, however they are shown.
    """
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, str) and type(value) is not str:
        return str.__str__(value)
    if isinstance(value, int) and type(value) not in (bool, int):
        return int.__int__(value)
    if isinstance(value, float) and type(value) is not float:
        return float.__float__(value)
    return value


def convert_values(value: Any) -> Any:
    """Lists and mappings of plain values, as JSON reads them back: see `convert_scalar`."""
    match value:
        case list() | tuple():
            return [convert_values(item) for item in value]
        case Mapping():
            return {
                convert_scalar(name): convert_values(item)
                for name, item in value.items()
            }
    return convert_scalar(value)


def is_number(value: object) -> bool:
    """Whether it is an int or a float, but no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def flatten(values: Mapping[str, Any], separator: str = "/") -> dict[str, Any]:
    """Nested mappings as one, their names joined.

    >>> flatten({"lr": 0.1, "augment": {"shift": 2}})
    {'lr': 0.1, 'augment/shift': 2}
    """
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inner = flatten(value, separator)
            flattened |= {
                f"{name}{separator}{below}": leaf for below, leaf in inner.items()
            }
        else:
            flattened[name] = value
    return flattened


def resolve_value(values: Mapping[str, Any], path: str) -> Any:
    """The value of this name or at this dotted path. Raises KeyError if there is none.

    >>> resolve_value({"opt": {"lr": 0.1}}, "opt.lr"), resolve_value({"val.loss": 0.5}, "val.loss")
    (0.1, 0.5)
    """
    if path in values:
        return values[path]
    name, _, below = path.partition(".")
    inner = values[name]
    if not isinstance(inner, Mapping):
        raise KeyError(path)
    return resolve_value(inner, below)


def find_value(values: Mapping[str, Any], path: str) -> Any:
    try:
        return resolve_value(values, path)
    except KeyError:
        return None
