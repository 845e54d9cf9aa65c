"""What is known of one trial."""

import pytest

from tuner.experiment.trials import Report, Run, TrialRecord


@pytest.mark.parametrize(
    ("config", "own", "of_all", "trained"),
    [
        ({}, None, 3, 3),
        ({}, 5, 3, 5),
        ({"seed": 7}, 5, 3, 7),
        ({}, None, None, None),
    ],
)
def test_a_trial_trained_with_its_own_seed_or_that_of_the_experiment(config, own, of_all, trained):
    assert TrialRecord("00001", 0.0, config, seed=own).trained_with(of_all) == trained


def test_the_time_between_a_kill_and_a_resume_is_not_its_own():
    runs = [Run(0.0, 2.0), Run(10.0, 13.0), Run(20.0, 19.0)]  # a clock was set back
    assert TrialRecord("00001", 0.0, runs=runs).duration_s == 5.0


def test_its_values_are_those_of_the_reports_that_have_them():
    trial = TrialRecord("00001", 0.0)
    assert (trial.last_epoch, trial.values("loss"), trial.report_at(1)) == (0, [], None)
    trial.results = [Report(1, 1.0, {"loss": 0.5}), Report(3, 2.0, {"acc": 0.9})]
    assert (trial.last_epoch, trial.values("loss")) == (3, [(1, 0.5)])
    assert trial.report_at(3) == trial.results[1]
