"""Grids: every combination of a space's values, each cell computed from its number alone."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tuner.space.domains import Choice, Domain, Numeric, Space, Value
from tuner.space.spaces import domains_of

Points = Callable[[str], int]  # dotted path of a domain -> the number of its values

MAX_LISTED = 200_000  # cells; larger grids are never listed one by one


def every_value(path: str) -> int:
    """Points for a grid of all values: more than any finite domain has."""
    return 1 << 62


def grid_values(domain: Domain, points: int) -> tuple[Value, ...]:
    """The values of `domain` on a grid: all of a choice, else at most `points`, evenly spaced.

    >>> grid_values(Numeric(1e-4, 1e-2, log=True), 3)
    (0.0001, 0.001, 0.01)
    """
    return tuple(_values(domain, points))


def _values(domain: Domain, points: int) -> Sequence[Value]:
    if isinstance(domain, Choice):
        return domain.values
    if isinstance(domain, Numeric) and domain.size is not None and domain.size <= points:
        return _Steps(domain, domain.size)
    if points == 1:
        return (_tidy(domain, domain.at(0.5)),)
    values = (domain.at(i / (points - 1)) for i in range(points))
    return tuple(dict.fromkeys(_tidy(domain, value) for value in values))


class _Steps(Sequence[Value]):
    """The values of a stepped domain, computed on demand: there may be billions."""

    def __init__(self, domain: Numeric, size: int) -> None:
        self._domain, self._size = domain, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Value:
        if not 0 <= index < self._size:
            raise IndexError(index)
        step = self._domain.step or 0
        return _tidy(self._domain, self._domain.first + index * step)


def _tidy(domain: Domain, value: float) -> Value:
    """`value` without the noise of exp(log(x)): 0.001, not 0.0009999999999999998."""
    if isinstance(domain, Numeric) and domain.integer:
        return round(value)
    return float(f"{value:.12g}")


def count_cells(space: Space, points: Points) -> int:
    """The number of cells of the grid over `space`; a conditional branch adds its own."""
    return _Grid(space, points).cells


def cell(space: Space, points: Points, index: int) -> dict[str, Any]:
    """Config `index` of the grid, 0 <= index < count_cells(); the last name varies fastest."""
    return _Grid(space, points).cell(index)


def cells(space: Space, points: Points) -> Iterator[dict[str, Any]]:
    """Every config of the grid, in order."""
    grid = _Grid(space, points)
    return map(grid.cell, range(grid.cells))


def space_size(space: Space) -> int | None:
    """The number of different configs; None where a domain is continuous."""
    finite = all(domain.size is not None for _, domain in domains_of(space))
    return count_cells(space, every_value) if finite else None


class _Grid:
    """The grid over a space whose names lie below `path`; `cells` is their number."""

    def __init__(self, space: Space, points: Points, path: str = "") -> None:
        self._axes = {
            key: _Axis(value, points, f"{path}.{key}" if path else key)
            for key, value in space.items()
        }
        self.cells: int = math.prod(axis.cells for axis in self._axes.values())

    def cell(self, index: int) -> dict[str, Any]:
        config: dict[str, Any] = {}
        for key, axis in reversed(self._axes.items()):
            index, offset = divmod(index, axis.cells)
            config[key] = axis.at(offset)
        return {key: config[key] for key in self._axes}


class _Axis:
    """The options of one value of a space: an option is one cell, a branch as many as it has."""

    def __init__(self, value: Value, points: Points, path: str) -> None:
        self._options = _values(value, points(path)) if isinstance(value, Domain) else (value,)
        self._branches: list[_Grid | None] | None = None
        if not isinstance(self._options, _Steps):
            self._branches = [
                _Grid(option, points, path) if isinstance(option, Mapping) else None
                for option in self._options
            ]
            cells = (branch.cells if branch else 1 for branch in self._branches)
            self._ends = list(accumulate(cells))
        self.cells = self._ends[-1] if self._branches else len(self._options)

    def at(self, offset: int) -> Value:
        """The option, or the cell of its branch, number `offset`."""
        if self._branches is None:
            return self._options[offset]
        number = bisect_right(self._ends, offset)
        branch = self._branches[number]
        if branch is None:
            return self._options[number]
        return branch.cell(offset - self._ends[number] + branch.cells)
