"""Names are replaced within a context only, whatever ends it."""

import types

import pytest

from tuner import ray_compat as ray_internals


def test_names_are_replaced_within_only():
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.a, one.b, two.a = 1, 2, 3
    with ray_internals.replaced({one: {"a": 10, "b": 20}, two: {"a": 30}}):
        assert (one.a, one.b, two.a) == (10, 20, 30)
    assert (one.a, one.b, two.a) == (1, 2, 3)
    with pytest.raises(ZeroDivisionError), ray_internals.replaced({one: {"a": 10}}):
        1 / 0  # noqa: B018
    assert (one.a, one.b, two.a) == (1, 2, 3)


@pytest.mark.parametrize(("version", "known"), [("2.60.0", True), ("2.6.0", False), ("3.0", False)])
def test_only_a_tested_ray_is_known(monkeypatch, version, known):
    monkeypatch.setattr("ray.__version__", version)
    assert ray_internals.is_known() is known


def test_a_name_that_is_not_there_is_an_error_and_replaces_nothing():
    module = types.ModuleType("m")
    module.a = 1
    with pytest.raises(AttributeError), ray_internals.replaced({module: {"a": 2, "b": 3}}):
        pass
    assert vars(module)["a"] == 1
