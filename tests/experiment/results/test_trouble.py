"""What went wrong in trials, as it is told."""

from tuner.experiment.results.trouble import (
    Failures,
    failures_by_cause,
    first_failures,
)
from tuner.experiment.trials import TrialError, TrialRecord


def trial(number, *, error=None):
    return TrialRecord(f"{number:05}", 0.0, error=error)


def test_first_failures_are_those_of_each_cause_the_most_frequent_first():
    errors = [("exception", "a"), ("exception", "b, line 3"), None, ("exception", "b, line 4")]
    trials = [
        trial(number, error=error and TrialError(*error)) for number, error in enumerate(errors)
    ]
    assert first_failures(failures_by_cause(trials)) == [
        Failures("exception", 2, "00001", "b, line 3"),
        Failures("exception", 1, "00000", "a"),
    ]
    assert first_failures(failures_by_cause([trial(0)])) == []
