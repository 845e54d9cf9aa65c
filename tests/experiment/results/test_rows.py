"""Rows are chosen by an expression and sorted by a name."""

import json

import pytest
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import arranged, trial_json, trial_rows

ROWS = [
    {"name": "a", "loss": 0.5, "tags": ["x"], "config": {"lr": 0.1, "o": {"m": 2}}},
    {"name": "b", "loss": None, "tags": [], "config": {"lr": "auto"}},
    {"name": "c", "loss": 0.25, "tags": ["x", "y"]},
]


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (None, [0, 1, 2]),
        ("loss < 0.4", [2]),
        ("loss == None", [1]),
        ("'x' in tags and not ('y' in tags)", [0]),
        ("config.lr > 0", [0]),  # what cannot be compared, or is not there, does not match
        ("config.o.m == 2 or name == 'c'", [0, 2]),
        ("name >= 'b'", [1, 2]),
    ],
)
def test_arranged_filters_by_where(where, numbers):
    assert arranged(ROWS, where=where) == numbers


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("los < 1", r"no name 'los' here \(did you mean 'loss'\?\); available: name, loss, tags"),
        ("loss <", "--where: cannot be read as an expression, .* optimizer == 'sgd', got 'loss <'"),
        ("loss = 1", "cannot be read as an expression, such as lr > 0.1 and optimizer == 'sgd'"),
        ("config.lrr < 1", r"no name 'config.lrr' here \(did you mean 'config.lr'"),
        ("__import__('os')", "is not allowed: use names"),
    ],
)
def test_arranged_invalid_where_is_refused(where, message):
    with pytest.raises(UsageError, match=message):
        arranged(ROWS, where=where)
    assert arranged([], where="los < 1") == []


def test_arranged_sorts_missing_values_last():
    assert arranged(ROWS, sort="loss") == [2, 0, 1]
    assert arranged(ROWS, sort="loss", reverse=True) == [0, 2, 1]
    assert arranged(ROWS, sort="config.lr") == [0, 1, 2]  # numbers before text
    assert arranged(ROWS, sort="tags") == [1, 0, 2]


def test_arranged_sort_name_must_be_of_a_row_but_not_of_a_chosen_row():
    assert arranged(ROWS, where="name == 'c'", sort="config") == [2]
    with pytest.raises(UsageError, match="no name 'lr'"):
        arranged(ROWS, where="name == 'c'", sort="lr")


def test_trial_rows_have_best_metrics_and_config(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5, 0.75, 0.6], config={"lr": 0.1, "status": "mine", "o": {"m": 1}})
    writer.trial(1, error=("oom", "m"))
    writer.end()
    results = Results(writer.folder)
    first, failed = json.loads(json.dumps(trial_rows(results)))
    assert first == {
        "lr": 0.1,
        "o": {"m": 1},
        "val_accuracy": 0.75,
        "trial_id": "00000",
        "status": "completed",
        "epochs": 3,
        "epoch": 2,
        "time": 4.0,
        "error": None,
        "config": {"lr": 0.1, "status": "mine", "o": {"m": 1}},
    }
    assert (failed["status"], failed["error"], failed["epoch"]) == ("failed", "oom", None)
    reports = trial_json(results, results.trials["00000"])["reports"]
    assert reports[1] == {"epoch": 2, "val_accuracy": 0.75}
    assert trial_json(results, results.trials["00001"]) == {**failed, "message": "m", "reports": []}
