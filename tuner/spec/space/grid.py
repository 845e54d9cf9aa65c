"""Grids: every combination of a space's values, each cell computed from its number alone.

A grid may be led `through` a config: of each continuous domain the value that is nearest to the
config's gives way to it, so that the config is a cell.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tuner.spec.plain_values import is_number
from tuner.spec.space.domains import Choice, Domain, Numeric, Space, Value
from tuner.spec.space.spaces import domains_of

Points = Callable[[str], int]  # dotted path of a domain -> the number of its values
Config = Mapping[str, Any]

_LONG = 100_000  # values of an axis that are not shuffled: they are passed in long strides
_STRIDE = (math.sqrt(5) - 1) / 2  # of the axis: what is passed first lies far apart
MAX_LISTED = 200_000  # cells; larger grids are never listed one by one


def every_value(path: str) -> int:
    """Points for a grid of all values: more than any finite domain has."""
    return 1 << 62


def grid_values(domain: Domain, points: int) -> Sequence[Value]:
    """The values of `domain` on a grid: all of a choice, else at most `points`, evenly spaced.

    >>> grid_values(Numeric(1e-4, 1e-2, log=True), 3)
    (0.0001, 0.001, 0.01)
    """
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


def _led_through(domain: Domain, values: Sequence[Any], through: Value) -> Sequence[Value]:
    """The values of a domain without options, with `through` in place of the nearest."""
    if not is_number(through) or through in values:
        return values
    if isinstance(domain, Numeric) and domain.log and through > 0:
        number = _nearest([math.log(value) for value in values], math.log(through))
    else:
        number = _nearest(values, through)
    return (*values[:number], through, *values[number + 1 :])


def _nearest(values: Sequence[Any], value: float) -> int:
    """The number of the value that is nearest, of those that ascend."""
    return min(range(len(values)), key=lambda number: abs(values[number] - value))


def _tidy(domain: Domain, value: float) -> Value:
    """`value` without the noise of exp(log(x)): 0.001, not 0.0009999999999999998."""
    if isinstance(domain, Numeric) and domain.integer:
        return round(value)
    return float(f"{value:.12g}")


class Grid:
    """The grid over a space whose names lie below `path`; `size` is the number of its cells.

    A conditional branch adds its own cells. The last name varies fastest.
    """

    def __init__(
        self, space: Space, points: Points, path: str = "", *, through: Config | None = None
    ) -> None:
        self._through = through
        self._axes = {
            key: _Axis(value, points, f"{path}.{key}" if path else key, (through or {}).get(key))
            for key, value in space.items()
        }
        self._sizes = [axis.cells for axis in self._axes.values()]
        self.size: int = math.prod(self._sizes)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The config of the cell number `index`."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        config: dict[str, Any] = {}
        for key, axis in reversed(self._axes.items()):
            index, offset = divmod(index, axis.cells)
            config[key] = axis.at(offset)
        return {key: config[key] for key in self._axes}

    def nearest(self, config: Config) -> int:
        """The number of the cell that is `config`, or the nearest to it."""
        index = 0
        for axis, offset in zip(self._axes.values(), self._offsets_of(config), strict=True):
            index = index * axis.cells + offset
        return index

    def spread(self) -> Spread:
        """The numbers of the cells, spread over the grid; the one that it is led through first."""
        first = None if self._through is None else self._offsets_of(self._through)
        return Spread(self._sizes, first)

    def _offsets_of(self, config: Config) -> list[int]:
        return [axis.offset_of(config.get(key)) for key, axis in self._axes.items()]


def cells(space: Space, points: Points) -> Iterator[dict[str, Any]]:
    """Every config of the grid over `space`, in order."""
    grid = Grid(space, points)
    return map(grid.__getitem__, range(grid.size))


def space_size(space: Space) -> int | None:
    """The number of different configs; None where a domain is continuous."""
    finite = all(domain.size is not None for _, domain in domains_of(space))
    return Grid(space, every_value).size if finite else None


def _within(branch: Space, value: Value) -> Config | None:
    """`value` if its names and constants are those of `branch`, or None."""
    if not isinstance(value, Mapping) or value.keys() != branch.keys():
        return None
    constants = (name for name, inner in branch.items() if not isinstance(inner, Domain | Mapping))
    return value if all(branch[name] == value[name] for name in constants) else None


class _Axis:
    """The options of one value of a space: an option is one cell, a branch as many as it has."""

    def __init__(self, value: Value, points: Points, path: str, through: Value = None) -> None:
        self._options = grid_values(value, points(path)) if isinstance(value, Domain) else (value,)
        if isinstance(value, Domain) and not isinstance(value, Choice):
            self._options = _led_through(value, self._options, through)
        self._branches: list[Grid | None] | None = None
        if not isinstance(self._options, _Steps):
            self._branches = [
                Grid(option, points, path, through=_within(option, through))
                if isinstance(option, Mapping)
                else None
                for option in self._options
            ]
            cells = (branch.size if branch else 1 for branch in self._branches)
            self._ends = list(accumulate(cells))
        self.cells = self._ends[-1] if self._branches else len(self._options)

    def offset_of(self, value: Value) -> int:
        """The offset of `value` or of the nearest; 0 if it is none of the options."""
        if self._branches is None:
            is_number = isinstance(value, int | float)
            return _nearest(self._options, value) if is_number else 0
        for number, branch in enumerate(self._branches):
            option, begin = self._options[number], self._ends[number] - 1
            if branch is None and option == value and type(option) is type(value):
                return begin
            if branch is not None and (inner := _within(option, value)) is not None:
                return begin + 1 - branch.size + branch.nearest(inner)
        return 0

    def at(self, offset: int) -> Value:
        """The option, or the cell of its branch, number `offset`."""
        if self._branches is None:
            return self._options[offset]
        number = bisect_right(self._ends, offset)
        branch = self._branches[number]
        if branch is None:
            return self._options[number]
        return branch[offset - self._ends[number] + branch.size]


class Spread:
    """The number of each cell in an order whose beginning is spread over the grid.

    As in a Latin hypercube, each axis takes all of its values in turn, shuffled anew in every
    round. A cell that is taken gives way to the next free one. Cell 0 is `first`.

    sizes: how many values each axis has, the last one changing fastest. first: the value of each
    axis, by its number; None begins in the middle.
    """

    def __init__(self, sizes: Sequence[int], first: Sequence[int] | None = None) -> None:
        self._sizes = tuple(sizes)
        self._first = first or [size // 2 for size in sizes]
        self._total = math.prod(sizes)
        self._rounds: list[tuple[int, list[int]]] = [(-1, [])] * len(self._sizes)
        self._order: list[int] = []
        self._next: dict[int, int] = {}  # of a cell that is taken: one that is perhaps free

    def __getitem__(self, k: int) -> int:
        """The number of cell k, 0 <= k < the product of the sizes."""
        if not 0 <= k < self._total:
            raise IndexError(k)
        while len(self._order) <= k:
            cell = self._free(self._wanted(len(self._order)))
            self._order.append(cell)
            self._next[cell] = (cell + 1) % self._total
        return self._order[k]

    def _wanted(self, k: int) -> int:
        """The cell number k before taken cells are skipped."""
        cell = 0
        for axis, size in enumerate(self._sizes):
            offset = self._offset(axis, size, k) if size > 1 else 0
            cell = cell * size + (self._first[axis] + offset) % size
        return cell

    def _offset(self, axis: int, size: int, k: int) -> int:
        """From the first value of an axis to its value in cell k."""
        if size > _LONG:
            return int(k * _STRIDE % 1 * size)
        number, place = divmod(k, size)
        if self._rounds[axis][0] != number:
            values = list(range(size))
            random.Random(f"axis {axis}, round {number}").shuffle(values)
            if number == 0:
                values = [(value - values[0]) % size for value in values]
            self._rounds[axis] = number, values
        return self._rounds[axis][1][place]

    def _free(self, cell: int) -> int:
        """`cell`, or the first free cell behind it."""
        passed = []
        while cell in self._next:
            passed.append(cell)
            cell = self._next[cell]
        for taken in passed:
            self._next[taken] = cell
        return cell
