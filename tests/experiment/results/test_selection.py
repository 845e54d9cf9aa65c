import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.experiment.results.selection import (
    MODES,
    SCOPES,
    find_front,
    hypervolume,
    score,
)
from tuner.experiment.trials import Report, TrialRecord
from tuner.spec.sections import Objective

VALUES = [0.5, 0.25, 1.0, 0.75, 0.5, 0.25, 0.125]
NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])

points_of_two = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30
)


def trial(number, values, status="completed", metric="loss"):
    reports = [Report(e, float(e), {metric: v}) for e, v in enumerate(values, start=1)]
    return TrialRecord(f"{number:05}", 0.0, status=status, results=reports)


def loss(mode):
    return Objective(metric="loss", mode=mode, choose="best_epoch")


def numbered(values):
    return [*enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("scope", "mode", "expected"),
    [
        ("last", "min", 0.125),
        ("avg", "min", sum(VALUES) / 7),
        ("last-5-avg", "max", sum(VALUES[-5:]) / 5),
        ("last-10-avg", "max", sum(VALUES) / 7),
        ("best", "min", 0.125),
        ("all", "max", 1.0),
    ],
)
def test_score_by_scope(scope, mode, expected):
    assert score(numbered(VALUES), loss(mode), scope=scope) == pytest.approx(expected)


@given(
    values=st.lists(NUMBERS), mode=st.sampled_from(MODES), scope=st.sampled_from(SCOPES)
)
def test_score_is_within_the_finite_values(values, mode, scope):
    finite = [value for value in values if math.isfinite(value)]
    result = score(numbered(values), loss(mode), scope=scope)
    assert (result is None) == (not finite)
    if result is not None:
        slack = 1e-9 * max(map(abs, finite))
        assert min(finite) - slack <= result <= max(finite) + slack


@given(points_of_two)
def test_front_has_what_no_other_beats(points):
    trials = [(point, TrialRecord(f"{n:05}", 0.0)) for n, point in enumerate(points)]
    front = [point for point, _ in find_front(trials)]
    for point in points:
        assert any(a <= point[0] and b <= point[1] for a, b in front)
    for a, b in front:
        assert not any(x <= a and y <= b and (x, y) != (a, b) for x, y in points)


@given(points_of_two)
def test_hypervolume_is_the_share_of_points_that_are_dominated(points):
    draws = np.random.default_rng(0).random((4000, 2))
    dominated = (np.array(points)[None] <= draws[:, None]).all(axis=2).any(axis=1)
    assert hypervolume(points, (1.0, 1.0)) == pytest.approx(dominated.mean(), abs=0.04)


def test_hypervolume_of_three_goals():
    assert hypervolume([(0.5, 0.5, 0.5)], (1, 1, 1)) == 0.125
    assert hypervolume([(0, 0, 0.5), (0.5, 0.5, 0)], (1, 1, 1)) == 0.5 + 0.125
    assert hypervolume([(1, 0, 0)], (1, 1, 1)) == 0
