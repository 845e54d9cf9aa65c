"""Means, intervals and paired differences, beside scipy's own, and that they keep their word."""

from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from tuner.experiment.results.statistics import (
    compute_differences,
    compute_mean,
    wilson,
)

numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 4))
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12)


@given(st.lists(numbers, min_size=2, max_size=12).filter(lambda v: len(set(v)) > 1))
def test_mean_of_equals_scipys(values):
    result = compute_mean(values)
    error = stats.sem(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=result.mean, scale=error)
    assert result.standard_error == pytest.approx(error)
    assert (result.low, result.high) == (pytest.approx(low), pytest.approx(high))
    assert result.n == len(values)


@given(pairs.filter(lambda p: len({a - b for a, b in p}) > 1))
def test_differences_from_best_of_two_equal_scipys(values):
    first, second = ({k: pair[i] for k, pair in enumerate(values)} for i in (0, 1))
    (result,) = compute_differences([first], second)
    assume(result.sd > 1e-3)  # tied differences get the values' resolution
    test = stats.ttest_rel(list(first.values()), list(second.values()))
    interval = test.confidence_interval(0.95)
    assert (result.low, result.high) == (
        pytest.approx(interval.low, abs=1e-9),
        pytest.approx(interval.high, abs=1e-9),
    )
    if abs(test.pvalue - 0.05) > 1e-6:
        assert result.is_settled == (test.pvalue < 0.05)


def apart(values):
    """Which of the others is told apart from the best of the groups of values."""
    best, *others = (dict(enumerate(group)) for group in sorted(values, key=fmean))
    result = compute_differences(others, best)
    return [each is not None and each.is_settled for each in result]


def share_apart(drawn):
    """Of the comparisons `drawn`, groups of values each, how many tell any group apart."""
    return sum(any(apart(values)) for values in drawn.tolist()) / len(drawn)


@pytest.mark.parametrize(("groups", "keys"), [(3, 2), (3, 3), (5, 2), (10, 2), (10, 5)])
@pytest.mark.parametrize("variance_ratio", [1, 16, 100])
def test_differences_from_best_of_equal_groups_are_apart_at_most_at_the_level(
    groups, keys, variance_ratio
):
    # With a spread pooled over the groups it is up to 15 of 100
    drawn = np.random.default_rng(0).normal(size=(400, groups, keys))
    drawn[:, -1] *= variance_ratio**0.5
    assert share_apart(drawn) <= 0.05


@pytest.mark.parametrize(("groups", "keys"), [(2, 2), (5, 2), (5, 3)])
def test_differences_from_best_of_accuracies_that_tie_are_rarely_apart(groups, keys):
    # Without regard to ties 10, 41 and 9 of 100
    drawn = (
        np.random.default_rng(0).binomial(360, 0.995, size=(400, groups, keys)) / 360
    )
    assert share_apart(drawn) <= 0.05


def test_differences_that_tie_have_the_spread_of_their_rounding():
    """That of the difference of two values, each uniform within the resolution: 1 / 12 of it."""
    [tied] = compute_differences([{1: 0.3, 2: 0.4}], {1: 0.1, 2: 0.2})
    assert tied.sd == pytest.approx(0.1 * (2 / 12) ** 0.5)


def test_differences_from_best_use_the_shared_keys():
    best = {1: 0.10, 2: 0.12, 3: 0.11}
    short, single, none = compute_differences([{1: 0.20, 3: 0.22}, {2: 0.5}, {}], best)
    assert (short.n, single.n, none) == (2, 1, None)
    assert short.mean == pytest.approx(0.105)
    assert short.low is not None
    assert single.low is None
    assert compute_differences([{1: 0.5}], {}) == [None]
    assert apart([[0.1, 0.1], [0.2, 0.2]]) == [True]


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_scipys(counts):
    right, n = counts
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert wilson(right / n, n) == pytest.approx(
        (expected.low, expected.high), abs=1e-9
    )


def test_wilson_of_the_best_of_several_has_sidaks_level():
    expected = stats.binomtest(30, 50).proportion_ci(0.95 ** (1 / 24), method="wilson")
    assert wilson(0.6, 50, among=24) == pytest.approx((expected.low, expected.high))
