"""The axis of each hyperparameter: its categories, or the numbers from `low` to `high`.

Hyperparameters keep their dotted names. Lists become text. Axes are widened to contain all values,
since the space may have changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from typing import Any

from tuner.spec.plain_values import flatten, is_number
from tuner.spec.space.domains import Choice, Domain, Numeric

_EXACT = 2**53  # larger whole numbers differ between Optuna, a database and JSON
_MOST_CATEGORIES = 9  # without a known domain; more numbers are a range


@dataclass(frozen=True, slots=True)
class Axis:
    """categories: in order, or () for numbers."""

    categories: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_integer: bool = False

    def find_category(self, value: Any) -> Any:
        """The category that equals the value of a flat config, or the number itself."""
        if not self.categories:
            return value
        same = (c for c in self.categories if repr(c) == repr(value))
        return next(same, repr(value))

    def find_positions(self, values: Iterable[Any]) -> list[float]:
        """The numbers themselves, or of categories their indices."""
        if not self.categories:
            return [float(value) for value in values]
        indices = {repr(category): i for i, category in enumerate(self.categories)}
        return [indices[repr(value)] for value in values]

    def scale_position(self, position: float) -> float:
        """Where a position lies between the ends of the axis, 0 to 1."""
        if self.categories:
            return position / max(len(self.categories) - 1, 1)
        scale = log if self.is_log else float
        low = scale(self.low) / 2  # halved, so that no difference leaves the floats
        span = scale(self.high) / 2 - low
        return (scale(position) / 2 - low) / span if span else 0.5


def build_axes(
    domains: Mapping[str, Domain], configs: Sequence[Mapping[str, Any]]
) -> dict[str, Axis]:
    """The axis of each hyperparameter, widened to all values in the flat `configs`.

    A hyperparameter without a domain has one only if it varies.
    """
    values: dict[str, list[Any]] = {name: [] for name in domains}
    for config in configs:
        for name, value in config.items():
            values.setdefault(name, []).append(value)
    return {
        name: _build_axis(domains.get(name), of_name)
        for name, of_name in values.items()
        if of_name and (name in domains or len(set(map(repr, of_name))) > 1)
    }


def _build_axis(domain: Domain | None, values: Sequence[Any]) -> Axis:
    if isinstance(domain, Choice):
        options = [
            _convert_value(v) for v in domain.values if not isinstance(v, Mapping)
        ]
        return _build_category_axis([*options, *values])
    distinct = set(map(repr, values))
    few = len(distinct) <= _MOST_CATEGORIES
    numeric = all(is_number(value) and isfinite(value) for value in values)
    if not numeric or (domain is None and few):
        return _build_category_axis(values)
    numbers = list(values)
    if isinstance(domain, Numeric):
        numbers += [domain.first, domain.last]
    low = min(numbers)
    high = max(numbers)
    is_log = isinstance(domain, Numeric) and domain.log and low > 0
    is_integer = all(isinstance(value, int) for value in values)
    return Axis(
        low=low,
        high=high,
        is_log=is_log,
        is_integer=is_integer,
    )


def _build_category_axis(values: Sequence[Any]) -> Axis:
    """The values in order; as text if some are equal and of different types, such as True and 1."""
    by_text = {repr(value): value for value in values}
    distinct = list(by_text.values())
    mixed = len(set(distinct)) < len(distinct)
    if mixed:
        distinct = [repr(value) for value in distinct]
    return Axis(tuple(distinct))


def flatten_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config made flat, by dotted names; its lists as text."""
    settings = flatten(config, ".").items()
    return {name: _convert_value(value) for name, value in settings}


def _convert_value(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > _EXACT:
        return float(value)
    if isinstance(value, list | tuple | Mapping):
        return json.dumps(value)
    return value
