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
    writer.trial(2, error=("oom", "\x1b[31mno memory"), config={"lr": 0.3, "model": "cnn"})
    writer.end()
    return writer.results


def test_trials_table_shows_varying_hyperparameters(results):
    assert format_trials(build_trial_rows(results), results.objective).splitlines() == [
        "TRIAL  STATUS     VAL_ACCURACY  EPOCH  OF  TIME  lr",
        "00000  completed  0.75          2      3   4s    0.1",
        "00001  stopped    0.25          1      1   2s    0.2",
        "00002  oom                             0   1s    0.3",
    ]
    assert format_trials([], results.objective) == "no trials"


def test_trial_text_has_a_curve(results):
    lines = format_trial(results, results.trials["00000"]).splitlines()
    assert lines[:5] == [
        "trial 00000: completed after 4s",
        "  lr     0.1",
        "  model  cnn",
        "",
        "val_accuracy",
    ]
    assert lines[5] == "0.75 |  *"
    assert lines[-2] == " 0.5 |*"
    assert lines[-1] == "      1   3  epoch"
    assert len(lines) == 5 + 12 + 1
    assert "\x1b" not in format_trial(results, results.trials["00002"])
