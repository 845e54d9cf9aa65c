"""What is known of one trial, and what is expected of the next."""

from math import log

import pytest

from tuner.experiment.trials import (
    Best,
    Run,
    TrialError,
    TrialRecord,
    estimate_gain,
    group_failures,
)
from tuner.spec.sections import Objective


def test_duration_excludes_gaps():
    runs = [Run(0.0, 2.0), Run(10.0, 13.0), Run(20.0, 19.0)]  # a clock was set back
    assert TrialRecord("00001", 0.0, runs=runs).duration_s == 5.0


def test_failures_by_cause_puts_the_most_frequent_first():
    errors = [
        ("exception", "a"),
        ("exception", "b, line 3"),
        None,
        ("exception", "b, line 4"),
    ]
    trials = [
        TrialRecord(f"{number}", 0.0, error=error and TrialError(*error))
        for number, error in enumerate(errors)
    ]
    groups = [
        (cause.message, failed) for cause, failed in group_failures(trials).items()
    ]
    assert groups == [("b, line #", [trials[1], trials[3]]), ("a", [trials[0]])]


def ended(values, seconds=90.0, status="completed"):
    """Trials that ran one after the other; None: without a value."""
    return [
        TrialRecord(
            f"{number:05}",
            number * seconds,
            status=status,
            runs=[Run(number * seconds, (number + 1) * seconds)],
            best=None if value is None else Best(value, f"{number:05}", 1, value),
        )
        for number, value in enumerate(values)
    ]


LOSSES = [0.1, 0.2, 0.3, 0.4, 0.45, *[0.9] * 15]


@pytest.mark.parametrize(("mode", "sign"), [("min", 1), ("max", -1)])
def test_expected_gain_is_the_excess_of_the_leaders_over_the_next(mode, sign):
    objective = Objective(metric="m", mode=mode)
    values = [sign * loss for loss in LOSSES]
    # Half an hour: three times as much in another
    trials = ended(values)
    gain = estimate_gain(trials, objective)
    assert gain == pytest.approx(0.2 * log(3))
    assert estimate_gain(trials[:19], objective) is None
    assert estimate_gain(ended([*values[:5], *[None] * 15]), objective) == gain
    running = ended([sign * -9.0] * 3, status="running")
    assert estimate_gain([*trials, *running], objective) == gain


def test_expected_gain_counts_the_time_in_which_trials_ran():
    objective = Objective(metric="m", mode="min")
    at_once = ended(LOSSES[:10], seconds=180.0) + ended(LOSSES[10:], seconds=180.0)
    late = ended(LOSSES)
    late[7].runs[0] = Run(1e6, 1e6 + 90.0)  # after a pause
    for trials in (at_once, late):
        assert estimate_gain(trials, objective) == pytest.approx(0.2 * log(3))
    assert estimate_gain(ended([0.5] * 20), objective) == 0.0
    assert estimate_gain(ended([None] * 20), objective) is None
    assert estimate_gain(ended([0.5] * 20, seconds=0.0), objective) is None
