"""The table of trials, and a trial's curve in a terminal."""

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.experiment.results.trial_rows import trial_rows
from tuner.reporting.trials_text import plot, trial_text, trials_table


@pytest.fixture
def results(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5, 0.75, 0.625], config={"lr": 0.1, "model": "cnn"})
    writer.trial(1, [0.25], end="stopped", config={"lr": 0.2, "model": "cnn"})
    writer.trial(2, error=("oom", "\x1b[31mno memory"), config={"lr": 0.3, "model": "cnn"})
    writer.end()
    return Results(writer.folder)


def test_a_line_a_trial_with_what_differs(results):
    assert trials_table(trial_rows(results), "val_accuracy").splitlines() == [
        "TRIAL  STATUS     VAL_ACCURACY  EPOCH  OF  TIME  lr",
        "00000  completed  0.75          2      3   4s    0.1",
        "00001  stopped    0.25          1      1   2s    0.2",
        "00002  oom                             0   1s    0.3",
    ]
    assert trials_table([], "val_accuracy") == "no trials"


def test_a_trial_with_its_curve(results):
    lines = trial_text(results, results.trials["00000"]).splitlines()
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
    assert "\x1b" not in trial_text(results, results.trials["00002"])


def test_who_has_asked_for_its_end_is_told(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    writer.add("control", id="1", control={"verb": "stop-trial", "trial_id": "00000"}, by="ad\x1ba")
    writer.add("trial_ended", trial_id="00000", status="stopped", control="1")
    writer.end()
    results = Results(writer.folder)
    told = trial_text(results, results.trials["00000"]).splitlines()[0]
    assert told == "trial 00000: stopped after 3s, as asked by ad a"


def test_curves_of_one_value_of_none_and_of_very_many(results, tmp_path):
    assert list(plot(results.trials["00001"], "val_accuracy")) == [
        "val_accuracy",
        "0.25 |*",
        "      1  epoch",
    ]
    assert list(plot(results.trials["00002"], "x")) == ["x: nothing reported"]
    writer = Writer(make_folder(tmp_path / "long"))
    writer.trial(0, [epoch / 1000 for epoch in range(1000)])
    writer.end()
    lines = list(plot(Results(writer.folder).trials["00000"], "val_accuracy"))
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("*")
