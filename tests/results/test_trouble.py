"""What went wrong in trials, as it is told."""

from tuner.record.trials import Report, TrialError, TrialRecord
from tuner.results.trouble import Failures, Growth, failures_by_cause, first_failures, growth_of


def trial(number, *, error=None, mib=()):
    reports = [Report(epoch, 0.0, {"host_memory_mib": held}) for epoch, held in enumerate(mib, 1)]
    return TrialRecord(f"{number:05}", 0.0, results=reports, error=error)


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


def test_memory_that_grew_is_told_of_the_first_trial():
    steady, grown = [100.0] * 9, [100.0, *range(200, 280, 10)]
    trials = [
        trial(0, mib=steady),
        trial(1, mib=grown),
        trial(2, mib=grown[:5]),
        trial(3, mib=grown),
    ]
    assert growth_of(trials) == Growth(2, "00001", 10.0)
    assert growth_of(trials[:1]) is None
