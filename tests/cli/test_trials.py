"""tuner trials."""

import json

from commands import call


def test_all_trials_some_of_them_and_in_another_order(digits):
    assert [line.split()[0] for line in call("trials", "digits").stdout.splitlines()[1:]] == [
        f"0000{number}" for number in range(4)
    ]
    done = call("trials", "digits", "--where", "val_accuracy > 0.6", "--sort", "val_accuracy")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["00001", "00002", "00003"]
    rows = json.loads(call("trials", "digits", "--sort", "lr", "--json").stdout)
    assert [row["trial_id"] for row in rows] == ["00003", "00002", "00001", "00000"]
    assert "no name 'x' here" in str(call("trials", "digits", "--sort", "x").exception)


def test_one_trial_with_its_curve(digits):
    assert "trial 00001: stopped" in call("trials", "digits", "--trial", "1").stdout
    shown = json.loads(call("trials", "digits", "--trial", "1", "--json").stdout)
    assert [report["val_accuracy"] for report in shown["reports"]] == [0.6, 0.7]
