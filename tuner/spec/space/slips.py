"""Constants of a space that were likely meant as domains: lists, bounds, and text such as "0.1, 1".

A config may hold each of these, so none is a fault by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tuner.spec.space.domains import Choice, Constant, Domain, Space, Value, literal
from tuner.spec.space.parsing import CALLS, EXAMPLES
from tuner.wording import shorten

# What other libraries name the bounds of a range, or its values, and what they write beside these
_BOUNDS = {"min", "max", "low", "high", "lower", "upper", "min_value", "max_value"}
_LISTS = {"values", "choices", "options", "categories"}
_KINDS = {"q", "step", "distribution", "type", "scale", "prior", "sampling", "log"}

_NUMBER = r"[-+]?\.?\d[-+.\de]*?"
_TEXT = re.compile(rf"(({'|'.join(CALLS)})\s+)?{_NUMBER}(\s*(,|\.\.)\s*|\s+){_NUMBER}\b")
_WIDTH = 80  # characters of a value in a warning


def slips(space: Space, path: str = "") -> Iterator[str]:
    """A warning for each constant that looks like a domain, in declared order."""
    for name, value in space.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, Choice) and not isinstance(value, Constant):
            for option in value.values:
                if isinstance(option, Mapping):
                    yield from slips(option, here)
        elif _looks_like_domain(value):
            text = literal(value)
            yield (
                f"{here} is {shorten(text, _WIDTH)} in every trial. Did you mean a domain, such "
                f"as {', '.join(EXAMPLES)}? If it is to be constant, write "
                f"{shorten(f'constant({text})', _WIDTH)}."
            )
        elif isinstance(value, Mapping):
            yield from slips(value, here)


def _looks_like_domain(value: Value) -> bool:
    if isinstance(value, Mapping):
        known = value.keys() <= _BOUNDS | _LISTS | _KINDS and value.keys() & (_BOUNDS | _LISTS)
        return bool(known) and not any(isinstance(inner, Domain) for inner in value.values())
    if isinstance(value, str):
        return _TEXT.match(value[:_WIDTH]) is not None
    return isinstance(value, list) and bool(value)
