"""Means, intervals and paired differences, beside scipy's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.results.statistics import Mean, mean_of, paired_difference

numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 4))
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12)


@given(st.lists(numbers, min_size=2, max_size=12).filter(lambda v: len(set(v)) > 1))
def test_a_mean_is_that_of_scipy(values: list[float]) -> None:
    found = mean_of(values)
    error = stats.sem(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=found.mean, scale=error)
    assert found.standard_error == pytest.approx(error)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.n == len(values)


@given(pairs.filter(lambda p: len({a - b for a, b in p}) > 1))
def test_a_paired_difference_is_that_of_scipy(values: list[tuple[float, float]]) -> None:
    first, second = ({k: pair[i] for k, pair in enumerate(values)} for i in (0, 1))
    found = paired_difference(first, second)
    assert found is not None
    test = stats.ttest_rel(list(first.values()), list(second.values()))
    interval = test.confidence_interval(0.95)
    assert (found.low, found.high) == (
        pytest.approx(interval.low, abs=1e-9),
        pytest.approx(interval.high, abs=1e-9),
    )
    if abs(test.pvalue - 0.05) > 1e-6:
        assert found.is_settled == (test.pvalue < 0.05)


def test_one_value_says_nothing_of_its_spread() -> None:
    assert mean_of([0.5]) == Mean(1, 0.5)
    assert not mean_of([0.5]).is_settled
    assert Mean(1, 0.5).as_dict()["standard_error"] is None


def test_only_the_keys_of_both_are_paired() -> None:
    found = paired_difference({1: 3.0, 2: 5.0, 3: 9.0}, {1: 1.0, 2: 1.0, 4: 0.0})
    assert found is not None
    assert (found.n, found.mean) == (2, 3.0)
    assert paired_difference({1: 3.0}, {2: 1.0}) is None


def test_the_same_difference_every_time_is_settled() -> None:
    assert mean_of([0.5, 0.5]).is_settled
    assert not mean_of([0.0, 0.0]).is_settled
