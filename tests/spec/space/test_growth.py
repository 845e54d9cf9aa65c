"""A space that grows still has every config of the earlier one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.space.domains import Choice, Numeric
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.growth import not_contained
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import transform
from tuner.testing.spaces import spaces


def faults(old, new):
    spaces = (parse_space({"x": domain} | {"y": 1}) for domain in (old, new))
    return [fault.key for fault in not_contained(*spaces)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uniform(0, 1)", "uniform(-1, 1)"),
        ("loguniform(1e-3, 1e-1)", "tune.loguniform(1e-3, 1)"),
        ("randint(1, 9)", "randint(1, 10)"),
        ("quniform(0, 1, 0.25)", "quniform(0, 1.5, 0.25)"),
        ("randn(0, 1)", "randn(0, 1)"),
        ("choice(['a', 'b'])", "choice(['c', 'b', 'a'])"),
        ("grid_search([1, 2])", "choice([1, 2, 3])"),
        ("choice([{'k': 'uniform(0, 1)'}])", "choice([2, {'k': 'uniform(0, 2)'}])"),
        ({"k": "uniform(0, 1)"}, {"k": "uniform(0, 2)"}),
        (0.5, "uniform(0, 1)"),
        ("sgd", "choice(['sgd', 'adam'])"),
    ],
)
def test_not_contained_is_empty_only_for_the_wider_space(old, new):
    assert faults(old, new) == []
    assert faults(new, old) == ([] if old == new else ["x.k" if isinstance(old, dict) else "x"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uniform(1, 2)", "loguniform(1, 2)"),
        ("uniform(1, 9)", "randint(1, 10)"),
        ("quniform(0, 1, 0.5)", "quniform(0, 1, 0.25)"),
        ("randn(0, 1)", "randn(0, 2)"),
        ("choice([1, 2])", "uniform(0, 3)"),
        ("choice([1])", "choice([True, 2])"),
        ("choice([{'k': 1}])", "choice([{'k': 1, 'm': 2}])"),
        (3, "uniform(0, 1)"),
        (3, 4),
        ("uniform(0, 1)", {"k": "uniform(0, 1)"}),
    ],
)
def test_not_contained_has_domains_that_shrink_or_change_kind(old, new):
    assert faults(old, new) == ["x"]


def test_not_contained_has_names_that_come_or_go():
    old, new = (parse_space({"lr": "uniform(0, 1)", name: 1}) for name in ("depth", "width"))
    unknown, missing = not_contained(old, new)
    assert str(unknown) == (
        "width: unknown hyperparameter of the earlier trials 'width' (did you mean 'depth'?); "
        "available: depth, lr"
    )
    assert str(missing) == "depth: must contain the earlier 1 and be of its kind"


@given(spaces, st.integers(0, 9))
def test_wider_space_has_every_earlier_config(space, seed):
    rng = np.random.default_rng(seed)

    def wider(_, domain):
        if isinstance(domain, Numeric):
            return replace(domain, upper=domain.upper + rng.integers(3) * (domain.step or 1))
        if isinstance(domain, Choice) and rng.random() < 0.5:
            return Choice((*domain.values, "another"))
        return domain

    grown, old = transform(space, wider), Encoding(space)
    assert list(not_contained(space, grown)) == []
    Encoding(grown).encode(old.decode(rng.random(len(old))))  # raises for a value outside
