"""Walking a space: every domain once, whatever branch it lies in, and a config without any."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.space.domains import Choice, Domain, Numeric, Value
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import (
    Position,
    config_at,
    count_levels,
    format_space,
    has_value,
    list_domains,
    transform,
    walk,
)
from tuner.testing.spaces import spaces


@given(spaces, st.data())
def test_config_at_replaces_every_domain(space, data):
    config = config_at(space, lambda _: data.draw(st.floats(0, 1)))
    assert list(config) == list(space)
    assert not list(list_domains(config))


def test_walk_branches_with_shared_names_differ():
    space = parse_space(
        {"a": "choice([{'x': uniform(0, 1)}, {'x': 3}])", "b": {"c": 1}}
    )
    x = (Position("a.x", (("a", 0),)), Position("a.x", (("a", 1),)))
    assert [position for position, _ in walk(space)] == [
        Position("a"),
        *x,
        Position("b.c"),
    ]
    assert {position.choice for position in x} == {Position("a")}
    assert Position("b.c").choice is None


@given(spaces)
def test_transform_replaces_domains(space):
    def same(position: Position, domain: Domain) -> Value:
        if not isinstance(domain, Choice):
            return domain
        return Choice(
            tuple(
                transform(option, same, position.append_branch(number))
                if isinstance(option, Mapping)
                else option
                for number, option in enumerate(domain.values)
            )
        )

    assert format_space(transform(space, same)) == format_space(space)


@pytest.mark.parametrize(
    ("value", "deep"),
    [
        *((1, 0), ("x", 0), ([], 1), ([1, [2]], 2), ({"a": [1, {"b": 2}]}, 3)),
        *((Choice((1, [[2]])), 2), ({"lr": Numeric(0, 1)}, 1)),
    ],
)
def test_levels_counts_nested_containers(value, deep):
    assert count_levels(value) == deep


@pytest.mark.parametrize(
    ("value", "expected"),
    [([1, 0.5], True), ([True, 0.5], False), ([1, 0.7], False), ([1], False)],
)
def test_a_choice_of_lists_has_equal_lists_alone(value, expected):
    assert has_value(Choice([[1, 0.5], [0, 0.5]]), value) is expected
