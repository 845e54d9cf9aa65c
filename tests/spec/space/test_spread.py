"""The order of a grid's cells: each once, and the first few all over it."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.space.spread import Spread

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def values_of(cell: int, sizes: list[int]) -> list[int]:
    found = []
    for size in reversed(sizes):
        cell, value = divmod(cell, size)
        found.append(value)
    return found[::-1]


@given(SIZES)
def test_every_cell_comes_once(sizes: list[int]) -> None:
    spread = Spread(sizes)
    total = prod(sizes)
    assert sorted(spread[k] for k in range(total)) == list(range(total))
    with pytest.raises(IndexError):
        spread[total]


@given(st.lists(st.integers(2, 6), min_size=1, max_size=6), st.data())
def test_the_first_is_given_and_every_hyperparameter_varies_at_once(
    sizes: list[int], data: st.DataObject
) -> None:
    first = [data.draw(st.integers(0, size - 1)) for size in sizes]
    spread = Spread(sizes, first)
    cells = [values_of(spread[k], sizes) for k in range(min(max(sizes), prod(sizes)))]
    assert cells[0] == first
    for axis, values in enumerate(zip(*cells, strict=True)):
        assert set(values) == set(range(sizes[axis]))


def test_the_order_is_the_same_wherever_it_is_asked_and_of_axes_of_any_length() -> None:
    spread = Spread([2, 200_001, 3])
    backwards = [spread[k] for k in (50, 10, 0)]
    assert [Spread([2, 200_001, 3])[k] for k in (50, 10, 0)] == backwards
    assert [Spread([3, 3, 2])[k] for k in range(6)] == [9, 12, 4, 5, 14, 7]
