"""Names of Ray's modules are replaced within a context, and restored."""

import types

import pytest

from tuner.ray_compat.replaced import replaced


def test_names_are_replaced_within_only():
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.a, one.b, two.a = 1, 2, 3
    with replaced({one: {"a": 10, "b": 20}, two: {"a": 30}}):
        assert (one.a, one.b, two.a) == (10, 20, 30)
    assert (one.a, one.b, two.a) == (1, 2, 3)
    with pytest.raises(ZeroDivisionError), replaced({one: {"a": 10}}):
        1 / 0  # noqa: B018
    assert (one.a, one.b, two.a) == (1, 2, 3)


def test_a_name_that_is_not_there_is_an_error_and_replaces_nothing():
    module = types.ModuleType("m")
    module.a = 1
    with pytest.raises(AttributeError), replaced({module: {"a": 2, "b": 3}}):
        pass
    assert vars(module)["a"] == 1
