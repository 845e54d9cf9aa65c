"""Domains: their values stay in bounds, grow with the quantile, and are counted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import tune

from tuner.spec.space.parsing import parse_domain
from tuner.testing.spaces import numeric


@given(numeric, st.floats(0, 1), st.floats(0, 1))
def test_at_is_in_bounds_and_monotone(domain, u, v):
    low, high = sorted((u, v))
    assert (
        domain.first
        <= domain.compute_value(low)
        <= domain.compute_value(high)
        <= domain.last
    )
    assert isinstance(domain.compute_value(u), int if domain.integer else float)


@given(numeric.filter(lambda d: d.size is not None and d.size < 40))
def test_size_counts_the_values(domain):
    assert domain.size is not None
    values = {domain.compute_value(i / 2_000) for i in range(2_001)}
    assert len(values) <= domain.size
    if not domain.log:
        assert len(values) == domain.size


@pytest.mark.parametrize("name", ["uniform", "loguniform", "randint", "lograndint"])
def test_at_samples_as_ray_does(name):
    ours = parse_domain(f"{name}(1, 64)")
    theirs = getattr(tune, name)(1, 64)
    drawn = sorted(theirs.sample(size=4000, random_state=0))
    at = [ours.compute_value((i + 0.5) / 4000) for i in range(4000)]
    gap = max(
        abs(math.log(a / b)) for a, b in list(zip(at, drawn, strict=True))[200:-200]
    )
    assert gap < 0.7  # one integer next to 1 is log(2)
    assert sum(at) / 4000 == pytest.approx(sum(drawn) / 4000, rel=0.05)
