"""Tables of trials, and the curve of one trial."""

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.results.trial_rows import build_trial_rows
from tuner.reporting.trial_tables import format_trial, format_trials


@pytest.fixture
def results(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5, 0.75, 0.625], config={"lr": 0.1, "model": "cnn"})
    writer.trial(1, [0.25], end="stopped", config={"lr": 0.2, "model": "cnn"})
    writer.trial(
        2, error=("oom", "\x1b[31mno memory"), config={"lr": 0.3, "model": "cnn"}
    )
    writer.end()
    return writer.results


def test_trials_table_shows_varying_hyperparameters(snapshot, results):
    snapshot(format_trials(build_trial_rows(results), results.objective))
    assert format_trials([], results.objective) == "no trials"


def test_trial_text_has_a_curve(snapshot, results):
    for trial in results.trials.values():
        snapshot(format_trial(results, trial))
