"""The commands ls, show, best and trials."""

from pathlib import Path

from commands import call, fetch_json, refusal

from tuner.experiment.results.measured_tests import record_test
from tuner.experiment.results.results import Results


def test_ls_of_no_experiment_says_how_to_start(here):
    assert fetch_json("ls") == []
    assert "start with: tuner run digits" in call("ls").stdout


def test_ls_filters_and_chooses_columns(digits):
    assert (
        call("ls", "--where", "val_accuracy > 0.95").stdout == "no experiment matches\n"
    )
    done = call("ls", "--columns", "name,strategy", "--where", "strategy == 'random'")
    assert done.stdout.splitlines() == ["NAME    STRATEGY", "digits  random"]
    assert "no name 'x' here" in refusal("ls", "--columns", "name,x")


def test_show_with_a_recorded_test_shows_it(digits):
    results = Results(digits)
    measured = {"trial_id": "00002", "epoch": 1, "test_accuracy": 0.875}
    measured["checkpoint_sha256"] = results.trials["00002"].checkpoints[0].sha256
    record_test(digits, "00002", measured)
    assert (
        "  test_accuracy  0.875  (held-out test split)" in call("show", "digits").stdout
    )
    assert fetch_json("show", "digits")["test"] == measured
    # Of other weights
    record_test(digits, "00002", {**measured, "checkpoint_sha256": "0" * 64})
    assert "test_accuracy" not in call("show", "digits").stdout


def test_show_of_a_damaged_journal_is_exit_code_1(digits, run_main):
    (digits / "journal.jsonl").write_text("x\n{}\n")
    done = run_main("show", "digits")
    assert (done.code, done.stdout) == (1, "")
    assert "journal.jsonl, line 1: not a line of JSON" in done.stderr
    assert "damaged" in call("ls").stdout


def test_best_shows_the_leaders(digits):
    best = fetch_json("best", "digits")
    assert {"trial_id", "config", "epoch", "metrics", "checkpoint", "shown"} <= set(
        best
    )
    assert Path(best["checkpoint"]).is_file()
    ranked = fetch_json("best", "digits", "--top", "9")
    assert [trial["trial_id"] for trial in ranked] == ["00002", "00001", "00000"]
    worst = fetch_json("best", "digits", "--metric", "val_accuracy", "--mode", "min")
    assert worst["trial_id"] == "00000"
    assert call("best", "digits", "--top", "2").stdout.count("trial 0000") == 2


def test_trials_filters_sorts_or_shows_a_curve(snapshot, digits):
    for options in (
        [],
        ["--where", "val_accuracy > 0.6", "--sort", "val_accuracy"],
        ["--trial", "1"],
    ):
        snapshot(call("trials", "digits", *options).stdout)
    rows = fetch_json("trials", "digits", "--sort", "lr")
    assert [row["trial_id"] for row in rows] == ["00003", "00002", "00001", "00000"]
    assert "no name 'x' here" in refusal("trials", "digits", "--sort", "x")
    shown = fetch_json("trials", "digits", "--trial", "1")
    assert [report["val_accuracy"] for report in shown["reports"]] == [0.6, 0.7]
