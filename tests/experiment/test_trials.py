"""What is known of one trial."""

import pytest

from tuner.experiment.trials import Run, TrialError, TrialRecord, failures_by_cause


@pytest.mark.parametrize(
    ("config", "seed", "of_all", "trained"),
    [({}, None, 3, 3), ({}, 5, 3, 5), ({"seed": 7}, 5, 3, 7), ({}, None, None, None)],
)
def test_trained_with_prefers_the_trials_seed(config, seed, of_all, trained):
    assert TrialRecord("00001", 0.0, config, seed=seed).trained_with(of_all) == trained


def test_duration_excludes_gaps():
    runs = [Run(0.0, 2.0), Run(10.0, 13.0), Run(20.0, 19.0)]  # a clock was set back
    assert TrialRecord("00001", 0.0, runs=runs).duration_s == 5.0


def test_failures_by_cause_puts_the_most_frequent_first():
    errors = [("exception", "a"), ("exception", "b, line 3"), None, ("exception", "b, line 4")]
    trials = [
        TrialRecord(f"{number:05}", 0.0, error=error and TrialError(*error))
        for number, error in enumerate(errors)
    ]
    causes = failures_by_cause(trials)
    assert [(cause.message, [t.trial_id for t in failed]) for cause, failed in causes.items()] == [
        ("b, line #", ["00001", "00003"]),
        ("a", ["00000"]),
    ]
