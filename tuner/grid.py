"""The cells of a grid: every combination of a space, each cell found from its number alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tuner.constraints import Constraints
from tuner.domains import Choice, Domain, Numeric, Space, Value

Points = Callable[[str], int]  # dotted path of a domain -> how many values it gets

MOST_LISTED = 200_000  # cells that are ever listed one by one


def every_value(path: str) -> int:
    """Points for a grid of all values: more than any finite domain has."""
    return 1 << 62


def grid_values(domain: Domain, points: int) -> tuple[Value, ...]:
    """The values of `domain` on a grid: all of a choice, else at most `points`, evenly spaced.

    >>> grid_values(Numeric(1e-4, 1e-2, log=True), 3)
    (0.0001, 0.001, 0.01)
    """
    if isinstance(domain, Choice):
        return domain.values
    if isinstance(domain, Numeric) and domain.size is not None and domain.size <= points:
        step = domain.step or 0
        return tuple(_tidy(domain, domain.first + i * step) for i in range(domain.size))
    if points == 1:
        return (_tidy(domain, domain.at(0.5)),)
    values = (domain.at(i / (points - 1)) for i in range(points))
    return tuple(dict.fromkeys(_tidy(domain, value) for value in values))


def _tidy(domain: Domain, value: float) -> Value:
    """`value` without the noise of exp(log(x)): 0.001, not 0.0009999999999999998."""
    if isinstance(domain, Numeric) and domain.integer:
        return round(value)
    return float(f"{value:.12g}")


def count_cells(space: Space, points: Points, path: str = "") -> int:
    """How many cells the grid over `space` has; a conditional branch adds its own."""
    total = 1
    for key, value in space.items():
        total *= sum(_weights(value, points, f"{path}.{key}" if path else key))
    return total


def cell(space: Space, points: Points, index: int, path: str = "") -> dict[str, Any]:
    """Config number `index` of the grid, 0 <= index < count_cells; the last name varies fastest."""
    config: dict[str, Any] = {}
    for key in reversed(list(space)):
        here = f"{path}.{key}" if path else key
        weights = _weights(space[key], points, here)
        index, offset = divmod(index, sum(weights))
        for value, weight in zip(_options(space[key], points, here), weights, strict=True):
            if offset < weight:
                inner = isinstance(value, Mapping)
                config[key] = cell(value, points, offset, here) if inner else value
                break
            offset -= weight
    return {key: config[key] for key in space}


def allowed_cells(
    space: Space, points: Points, constraints: Constraints
) -> Iterator[dict[str, Any]]:
    """Every config of the grid that `constraints` allow, in order."""
    configs = (cell(space, points, index) for index in range(count_cells(space, points)))
    return filter(constraints.allow, configs)


def _options(value: Value, points: Points, path: str) -> tuple[Value, ...]:
    return grid_values(value, points(path)) if isinstance(value, Domain) else (value,)


def _weights(value: Value, points: Points, path: str) -> list[int]:
    """How many cells each option of `value` stands for: one, or a branch's own count."""
    return [
        count_cells(option, points, path) if isinstance(option, Mapping) else 1
        for option in _options(value, points, path)
    ]
