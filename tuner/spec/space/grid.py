"""Grids: every combination of a space's values, each cell computed from its number alone.

through: a config that becomes a cell; it replaces the nearest values of continuous domains.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from tuner.spec.plain_values import is_number
from tuner.spec.space.domains import Choice, Domain, Numeric, Space, Value, round_float
from tuner.spec.space.spaces import list_domains

Points = Callable[[str], int]  # dotted path of a domain -> the number of its values
Config = Mapping[str, Any]

MAX_LISTED = 200_000  # cells; larger grids are never listed one by one


def every_value(path: str) -> int:
    """Points for a grid of all values: more than any finite domain has."""
    return 1 << 62


def list_grid_values(domain: Domain, points: int) -> Sequence[Value]:
    """The values of `domain` on a grid: all of a choice, else at most `points`, evenly spaced.

    >>> list_grid_values(Numeric(1e-4, 1e-2, log=True), 3)
    (0.0001, 0.001, 0.01)
    """
    if isinstance(domain, Choice):
        return domain.values
    if (
        isinstance(domain, Numeric)
        and domain.size is not None
        and domain.size <= points
    ):
        return _Steps(domain, domain.size)
    if points == 1:
        return (_round_value(domain, domain.compute_value(0.5)),)
    values = (domain.compute_value(i / (points - 1)) for i in range(points))
    return tuple(dict.fromkeys(_round_value(domain, value) for value in values))


class _Steps(Sequence[Value]):
    """The values of a stepped domain, computed on demand: there may be billions."""

    def __init__(self, domain: Numeric, size: int) -> None:
        self._domain = domain
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Value:
        if not 0 <= index < self._size:
            raise IndexError(index)
        step = self._domain.step or 0
        return _round_value(self._domain, self._domain.first + index * step)


def _replace_nearest(
    domain: Domain, values: Sequence[Any], through: Value
) -> Sequence[Value]:
    """The values of a domain without options, with `through` in place of the nearest."""
    if not is_number(through) or through in values:
        return values
    if isinstance(domain, Numeric) and domain.log and through > 0:
        number = _find_nearest([math.log(value) for value in values], math.log(through))
    else:
        number = _find_nearest(values, through)
    return (*values[:number], through, *values[number + 1 :])


def _find_nearest(values: Sequence[Any], value: float) -> int:
    """The number of the value that is nearest, of those that ascend."""
    return min(range(len(values)), key=lambda number: abs(values[number] - value))


def _round_value(domain: Domain, value: float) -> Value:
    """`value` without the noise of exp(log(x)): 0.001, not 0.0009999999999999998."""
    if isinstance(domain, Numeric) and domain.integer:
        return round(value)
    return round_float(value)


class Grid:
    """The grid over a space below `path`. Branches add cells; the last name varies fastest."""

    def __init__(
        self,
        space: Space,
        points: Points,
        path: str = "",
        *,
        through: Config | None = None,
    ) -> None:
        self._through = through
        self._axes = {
            key: _Axis(
                value,
                points,
                f"{path}.{key}" if path else key,
                (through or {}).get(key),
            )
            for key, value in space.items()
        }
        self.size: int = math.prod(axis.cells for axis in self._axes.values())

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.size:
            raise IndexError(index)
        config: dict[str, Any] = {}
        for key, axis in reversed(self._axes.items()):
            index, offset = divmod(index, axis.cells)
            config[key] = axis.build_cell(offset)
        return {key: config[key] for key in self._axes}

    def find_nearest(self, config: Config) -> int:
        """The number of the cell that is `config`, or the nearest to it."""
        index = 0
        for key, axis in self._axes.items():
            index = index * axis.cells + axis.find_offset(config.get(key))
        return index

    def shuffle_cells(self) -> list[int]:
        """The numbers of the cells, at most MAX_LISTED, shuffled; that of `through` first."""
        draw = random.Random("spread")
        if self.size <= MAX_LISTED:
            numbers = draw.sample(range(self.size), self.size)
        else:  # which may be beyond what `sample` can count
            numbers = [draw.randrange(self.size) for _ in range(2 * MAX_LISTED)]
        first = self.find_nearest(self._through) if self._through else numbers[0]
        return list(dict.fromkeys([first, *numbers]))[:MAX_LISTED]


def iterate_cells(space: Space, points: Points) -> Iterator[dict[str, Any]]:
    """Every config of the grid over `space`, in order."""
    grid = Grid(space, points)
    return map(grid.__getitem__, range(grid.size))


def count_configs(space: Space) -> int | None:
    finite = all(domain.size is not None for _, domain in list_domains(space))
    return Grid(space, every_value).size if finite else None


def _match_branch(branch: Space, value: Value) -> Config | None:
    """`value` if its names and constants are those of `branch`, or None."""
    if not isinstance(value, Mapping) or value.keys() != branch.keys():
        return None
    constants = (
        name
        for name, inner in branch.items()
        if not isinstance(inner, Domain | Mapping)
    )
    return value if all(branch[name] == value[name] for name in constants) else None


class _Axis:
    """The options of one value of a space: an option is one cell, a branch as many as it has."""

    def __init__(
        self, value: Value, points: Points, path: str, through: Value = None
    ) -> None:
        self._options = (
            list_grid_values(value, points(path))
            if isinstance(value, Domain)
            else (value,)
        )
        if isinstance(value, Domain) and not isinstance(value, Choice):
            self._options = _replace_nearest(value, self._options, through)
        self._branches: list[Grid | None] | None = None
        if not isinstance(self._options, _Steps):
            self._branches = [
                Grid(option, points, path, through=_match_branch(option, through))
                if isinstance(option, Mapping)
                else None
                for option in self._options
            ]
            cells = (branch.size if branch else 1 for branch in self._branches)
            self._ends = list(accumulate(cells))
        self.cells = self._ends[-1] if self._branches else len(self._options)

    def find_offset(self, value: Value) -> int:
        """The offset of `value` or of the nearest; 0 if it is none of the options."""
        if self._branches is None:
            return _find_nearest(self._options, value) if is_number(value) else 0
        for number, branch in enumerate(self._branches):
            option = self._options[number]
            begin = self._ends[number] - 1
            if branch is None and option == value and type(option) is type(value):
                return begin
            if (
                branch is not None
                and (inner := _match_branch(option, value)) is not None
            ):
                return begin + 1 - branch.size + branch.find_nearest(inner)
        return 0

    def build_cell(self, offset: int) -> Value:
        """The option, or the cell of its branch, number `offset`."""
        if self._branches is None:
            return self._options[offset]
        number = bisect_right(self._ends, offset)
        branch = self._branches[number]
        if branch is None:
            return self._options[number]
        return branch[offset - self._ends[number] + branch.size]
