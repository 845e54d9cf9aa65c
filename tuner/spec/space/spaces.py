"""Walks over search spaces, and what follows from them: configs, extremes, texts, keys."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

from tuner.spec.plain_values import LARGEST, is_number
from tuner.spec.space.domains import Choice, Domain, Normal, Numeric, Space, Value


class Position(NamedTuple):
    """The position of a value in a space; branches may share its dotted path.

    branches: (path of the choice, number of its value) of each enclosing branch, outermost first.
    """

    path: str = ""
    branches: tuple[tuple[str, int], ...] = ()

    def append_name(self, name: str) -> Position:
        path = f"{self.path}.{name}" if self.path else name
        return Position(path, self.branches)

    def append_branch(self, number: int) -> Position:
        return Position(self.path, (*self.branches, (self.path, number)))

    @property
    def choice(self) -> Position | None:
        """The position of the choice that the innermost branch belongs to, or None."""
        return (
            Position(self.branches[-1][0], self.branches[:-1])
            if self.branches
            else None
        )


ROOT = Position()


def walk(space: Space, at: Position = ROOT) -> Iterator[tuple[Position, Value]]:
    """Every domain and constant with its position, in order; branches follow their choice."""
    for key, value in space.items():
        here = at.append_name(key)
        if isinstance(value, Mapping):
            yield from walk(value, here)
            continue
        yield here, value
        if isinstance(value, Choice):
            for number, option in enumerate(value.values):
                if isinstance(option, Mapping):
                    yield from walk(option, here.append_branch(number))


def transform(
    space: Space, replace: Callable[[Position, Domain], Value], at: Position = ROOT
) -> dict[str, Value]:
    """`space` with each domain outside of branches replaced; `replace` transforms branches."""
    result: dict[str, Value] = {}
    for key, value in space.items():
        here = at.append_name(key)
        if isinstance(value, Domain):
            result[key] = replace(here, value)
        elif isinstance(value, Mapping):
            result[key] = transform(value, replace, here)
        else:
            result[key] = value
    return result


def config_at(space: Space, quantile: Callable[[Position], float]) -> dict[str, Value]:
    """The config that has each domain's value at the quantile of its position."""

    def find_value(position: Position, domain: Domain) -> Value:
        u = quantile(position)
        value = domain.compute_value(u)
        if isinstance(domain, Choice) and isinstance(value, Mapping):
            return transform(
                value, find_value, position.append_branch(domain.compute_index(u))
            )
        return value

    return transform(space, find_value)


def format_space(space: Space) -> dict[str, Value]:
    """The space as plain values with each domain as its text: the inverse of `parse_space`."""
    return transform(space, lambda _, domain: str(domain))


def list_domains(space: Space) -> Iterator[tuple[str, Domain]]:
    """Every (dotted path, domain) of `space`, those inside branches too, in declared order."""
    return (
        (position.path, value)
        for position, value in walk(space)
        if isinstance(value, Domain)
    )


def list_names(space: Space) -> list[str]:
    """The dotted path of every domain, and every name of `space` itself, constants too."""
    return [*(path for path, _ in list_domains(space)), *space]


_KEY = json.JSONEncoder(sort_keys=True, default=str).encode


def compute_config_key(config: Mapping[str, Value]) -> str:
    """Text that is the same for equal configs."""
    return _KEY(config)


def merge_config(
    constants: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """The values that one trial trains with: `config` over `constants`, within mappings, too.

    >>> merge_config({"lr": 1, "model_args": {"depth": 3}}, {"model_args": {"width": 8}})
    {'lr': 1, 'model_args': {'depth': 3, 'width': 8}}
    """
    values = {**constants, **config}
    for name in constants.keys() & config.keys():
        both = constants[name], config[name]
        if all(isinstance(value, Mapping) for value in both):
            values[name] = merge_config(*both)
    return values


def count_levels(value: Any) -> int:
    """How deep lists and mappings nest in what `value`, a space or a config, may become.

    >>> count_levels({"lr": [1, 2]}), count_levels(3)
    (2, 0)
    """
    if isinstance(value, Choice):
        return max(map(count_levels, value.values))
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list | tuple):
        return 1 + max(map(count_levels, inner), default=0)
    return 0


def find_expected_values(space: Space) -> dict[str, Value]:
    """The values that priors expect, without the others."""
    values: dict[str, Value] = {}
    for name, value in space.items():
        if isinstance(value, Numeric | Choice) and value.prior is not None:
            values[name] = value.prior.value
        elif isinstance(value, Mapping) and (nested := find_expected_values(value)):
            values[name] = nested
    return values


def has_value(domain: Domain, value: Value) -> bool:
    if isinstance(domain, Choice):
        return any(is_same(option, value) for option in domain.values)
    return quantile(domain, value) is not None


def quantile(domain: Domain, value: Value) -> float | None:
    """A u with `domain.at(u) == value`, in the middle of the value's cell; None: not in it."""
    if not is_number(value) or not abs(value) <= LARGEST:
        # NaN, or what no float can hold
        return None
    if isinstance(domain, Normal):  # `at` cuts the tails off at these quantiles
        u = NormalDist(domain.mean, domain.sd).cdf(value)
        return min(max(u, 1e-4), 1 - 1e-4)
    assert isinstance(domain, Numeric)
    low = domain.first
    high = domain.last
    step = domain.step
    slack = 1e-9 * max(abs(low), abs(high), 1e-300)
    if not low - slack <= value <= high + slack:
        return None
    if step is not None:
        nearest = round(value / step) * step
        if abs(value - nearest) > 1e-6 * step:
            return None
    if low == high:
        return 0.5
    value = min(max(value, low), high)
    if not domain.integer:
        return _compute_position(value, low, high, domain.log)
    assert step is not None
    below = _compute_position(value, low, high + step, domain.log)
    above = _compute_position(value + step, low, high + step, domain.log)
    return (below + above) / 2


def _compute_position(value: float, low: float, high: float, log: bool) -> float:
    if log:
        value = math.log(value)
        low = math.log(low)
        high = math.log(high)
    if high > low:
        position = (value - low) / (high - low)
        return min(max(position, 0.0), 1.0)
    return 0.5


def is_same(a: Any, b: Any) -> bool:
    """Whether two plain values are equal; True is not 1."""
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    return bool(a == b)
