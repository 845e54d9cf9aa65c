"""The cells of a grid in an order whose beginning is spread over it, whatever is left out.

As in a Latin hypercube, each axis takes all of its values in turn, shuffled anew in every round, so
that after as many cells as an axis has values it has had each of them once. A cell that was taken
already gives way to the next free one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

_LONG = 100_000  # values of an axis that are not shuffled: they are passed in long strides
_STRIDE = (math.sqrt(5) - 1) / 2  # of the axis: what is passed first lies far apart


class Spread:
    """The number of each cell, in that order; cell 0 is `first`.

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
        """Cell k, were it not for those that are taken."""
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
        """`cell`, or the first one behind it that is not taken."""
        passed = []
        while cell in self._next:
            passed.append(cell)
            cell = self._next[cell]
        for taken in passed:
            self._next[taken] = cell
        return cell
