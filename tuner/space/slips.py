"""Constants of a space that were likely meant as domains: what other libraries write for one.

A list, a pair and `{min: 1, max: 5}` are values that a config may hold, so they are no faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeGuard

from tuner.settings_base import FaultsError
from tuner.space.domains import Choice, Constant, Numeric, Space, Value, literal

_BOUNDS = (("min", "max"), ("low", "high"), ("lower", "upper"), ("min_value", "max_value"))
_LISTS = ("values", "choices", "options", "categories")
_STEPS = ("q", "step")
_KINDS = ("distribution", "type", "scale", "prior", "sampling", "log")  # may say "log..."
_WIDE = 100  # times its lower bound: numbers of such a range are mostly searched by their logarithm
_LONGEST = 80  # characters of a value in a message


class Slip(NamedTuple):
    """A constant at the dotted `path`, and the domains as text that it may have been meant for."""

    path: str
    value: Value
    meant: tuple[str, ...]

    @property
    def domains(self) -> str:
        """What it may have been meant for, in words."""
        return " or ".join(map(_short, self.meant))

    def __str__(self) -> str:
        constant = f"constant({literal(self.value)})"
        return (
            f"{self.path} is {_short(literal(self.value))} in every trial. Did you mean "
            f"{self.domains}? If it is to be constant, write {_short(constant)}."
        )


def slips(space: Space, path: str = "") -> Iterator[Slip]:
    """Each constant that looks like a domain, those inside branches too, in declared order."""
    for name, value in space.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, Choice) and not isinstance(value, Constant):
            for option in value.values:
                if isinstance(option, Mapping):
                    yield from slips(option, here)
        elif meant := _meant_by(value):
            yield Slip(here, value, meant)
        elif isinstance(value, Mapping):
            yield from slips(value, here)


def _meant_by(value: Value) -> tuple[str, ...]:
    """The domains that `value` may have been meant for; none where it is plainly a constant."""
    with suppress(FaultsError):  # as of bounds in the wrong order: then it was no domain
        if isinstance(value, list):
            return _meant_by_list(value)
        if isinstance(value, Mapping) and set(value) <= _KNOWN:
            return _meant_by_mapping(value)
    return ()


_KNOWN = {*(name for pair in _BOUNDS for name in pair), *_LISTS, *_STEPS, *_KINDS}


def _meant_by_list(values: list[Value]) -> tuple[str, ...]:
    if not values:
        return ()
    choice = str(Choice(tuple(values)))
    is_range = len(values) == 2 and all(map(_is_number, values)) and values[0] < values[1]
    return (choice, _range(*values)) if is_range else (choice,)


def _meant_by_mapping(value: Mapping[str, Value]) -> tuple[str, ...]:
    for name in _LISTS:
        if isinstance(options := value.get(name), list) and options:
            return (str(Choice(tuple(options))),)
    step = next((value[name] for name in _STEPS if name in value), None)
    log = any(value.get(name) is True or "log" in str(value.get(name)) for name in _KINDS)
    for low, high in _BOUNDS:
        lower, upper = value.get(low), value.get(high)
        if _is_number(lower) and _is_number(upper):
            return (_range(lower, upper, step=step if _is_number(step) else None, log=log),)
    return ()


def _range(lower: float, upper: float, *, step: float | None = None, log: bool = False) -> str:
    """The domain of the numbers from `lower` to `upper`, which is among them."""
    if isinstance(lower, int) and isinstance(upper, int) and step in (None, 1):
        return str(Numeric(lower, upper + 1, log=log, integer=True))
    log = log or (step is None and 0 < lower * _WIDE <= upper)
    return str(Numeric(lower, upper, log=log, q=step))


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    end = "...)" if text.endswith(")") else "..."
    return text[: _LONGEST - len(end)] + end
