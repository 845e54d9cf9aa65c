"""Grids: every cell once, in a stable order, each from its number alone."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tuner.spec.space.domains import Choice, Numeric
from tuner.spec.space.grid import (
    MAX_LISTED,
    Grid,
    every_value,
    iterate_cells,
    list_grid_values,
)
from tuner.spec.space.parsing import parse_domain, parse_space
from tuner.spec.space.spaces import config_at, list_domains
from tuner.testing.spaces import spaces


def three(path):
    return 3


@pytest.mark.parametrize(
    "space",
    [
        {"a": "choice([1, 2])", "b": "grid_search(['x', 'y'])", "c": 0},
        {"opt": "choice(['sgd', {'kind': 'adam', 'eps': choice([1, 2])}])"},
    ],
)
def test_cells_vary_the_last_name_fastest_and_add_branches(snapshot, space):
    snapshot.compare_value([*iterate_cells(parse_space(space), three)])


@pytest.mark.parametrize(
    ("domain", "points"),
    [
        ("loguniform(1e-4, 1e-2)", 3),
        ("uniform(0, 1)", 5),
        ("uniform(0, 1)", 1),
        ("randint(1, 4)", 5),
        ("randint(0, 101)", 3),
        ("quniform(0.1, 0.3, 0.1)", 9),
        ("randn(0, 1)", 3),
    ],
)
def test_grid_values_are_evenly_spaced_in_scale(snapshot, domain, points):
    snapshot.compare_value([*list_grid_values(parse_domain(domain), points)])


@given(st.integers(1, 9), st.integers(1, 30), st.integers(0, 40))
def test_grid_values_stay_in_bounds(points, low, span):
    domain = Numeric(low, low + span + 1, integer=True, log=True)
    values = list_grid_values(domain, points)
    assert 1 <= len(values) <= max(points, 1)
    assert list(values) == sorted(set(values))
    assert all(domain.first <= v <= domain.last for v in values)


@given(spaces, st.randoms(use_true_random=False))
def test_grid_through_config_keeps_count_and_begins_there(space, random):
    assume(not any(_repeats(domain) for _, domain in list_domains(space)))
    config = config_at(space, lambda _: random.random())
    grid = Grid(space, three, through=config)
    assert grid[grid.shuffle_cells()[0]] == config
    assert grid.size == Grid(space, three).size


def test_grid_through_config_replaces_nearest_value():
    space = parse_space(
        {"lr": "loguniform(1e-4, 1e-2)", "o": "choice([{'m': uniform(0, 1)}, 2])"}
    )
    config = {"lr": 0.004, "o": {"m": 0.9}}
    grid = Grid(space, three, through=config)
    configs = [grid[index] for index in range(grid.size)]
    assert list(dict.fromkeys(c["lr"] for c in configs)) == [0.0001, 0.001, 0.004]
    assert [c["o"] for c in configs[:4]] == [{"m": 0}, {"m": 0.5}, {"m": 0.9}, 2]


def _repeats(domain):
    return isinstance(domain, Choice) and len(set(map(repr, domain.values))) < len(
        domain.values
    )


def test_grid_of_billions_lists_none():
    space = parse_space(
        {"a": "randint(0, 1000000000000)", "b": "choice([1, {'c': 'x'}])"}
    )
    grid = Grid(space, every_value)
    assert grid.size == 2 * 10**12
    assert grid[10**12 + 1] == {"a": 5 * 10**11, "b": {"c": "x"}}
    assert Grid(space, three).size == 6


def test_spread_visits_each_cell_once_in_a_fixed_order_and_is_bounded():
    space = parse_space({"a": "choice([1, 2, 3])", "b": "choice([1, 2])"})
    order = Grid(space, three).shuffle_cells()
    assert sorted(order) == list(range(6))
    assert order == Grid(space, three).shuffle_cells() != sorted(order)
    order = Grid(
        parse_space({"a": "randint(0, 1000000000000)"}), every_value
    ).shuffle_cells()
    assert 0.8 * MAX_LISTED < len(set(order)) == len(order) <= MAX_LISTED
