import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tuner.experiment.results.selection import MODES, SCOPES, best_epoch, ranked, score
from tuner.experiment.trials import Report, TrialRecord
from tuner.spec.sections import Objective

VALUES = [0.5, 0.25, 1.0, 0.75, 0.5, 0.25, 0.125]
NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])


def trial(number, values, status="completed", metric="loss"):
    reports = [Report(e, float(e), {metric: v}) for e, v in enumerate(values, start=1)]
    return TrialRecord(f"{number:05}", 0.0, status=status, results=reports)


def loss(mode):
    return Objective(metric="loss", mode=mode)


@pytest.mark.parametrize(
    ("scope", "mode", "expected"),
    [
        ("last", "min", 0.125),
        ("avg", "min", sum(VALUES) / 7),
        ("last-5-avg", "max", sum(VALUES[-5:]) / 5),
        ("last-10-avg", "max", sum(VALUES) / 7),
        ("best", "min", 0.125),
        ("best", "max", 1.0),
        ("all", "max", 1.0),
    ],
)
def test_score_by_scope(scope, mode, expected):
    assert score(VALUES, loss(mode), scope=scope) == pytest.approx(expected)


@given(values=st.lists(NUMBERS), mode=st.sampled_from(MODES), scope=st.sampled_from(SCOPES))
def test_score_is_within_the_finite_values(values, mode, scope):
    finite = [value for value in values if math.isfinite(value)]
    result = score(values, loss(mode), scope=scope)
    assert (result is None) == (not finite)
    if result is not None:
        slack = 1e-9 * max(map(abs, finite))
        assert min(finite) - slack <= result <= max(finite) + slack


@given(values=st.lists(st.tuples(st.integers(1, 9), NUMBERS)), mode=st.sampled_from(MODES))
def test_best_epoch_is_the_first_best(values, mode):
    result = best_epoch(values, loss(mode))
    top = score([value for _, value in values], loss(mode))
    assert (result is None) == (top is None)
    assume(result is not None)
    assert result == min(epoch for epoch, value in values if value == top)


def test_ranked_breaks_ties_by_trial_id():
    trials = [trial(10, [0.5]), trial(9, [0.5]), trial(123456, [0.5]), trial(11, [0.25])]
    order = [t.trial_id for _, t in ranked(trials, loss("max"))]
    assert order == ["00009", "00010", "123456", "00011"]


def test_ranked_excludes_unusable_trials():
    trials = [
        trial(1, [0.9], status="failed"),
        trial(2, []),
        trial(3, [math.nan]),
        trial(4, [0.1], metric="accuracy"),
        *(trial(5 + i, [0.5], status=status) for i, status in enumerate(("running", "stopped"))),
    ]
    assert [t.trial_id for _, t in ranked(trials, loss("max"), scope="last")] == ["00005", "00006"]
