"""tuner show."""

import json

from commands import call, tuner
from fresh import ran

from tuner.experiment.results.results import Results
from tuner.experiment.results.test_record import record_test


def test_show(digits):
    shown = json.loads(call("show", "digits", "--json").stdout)
    assert set(shown) == {"name", "status", "counts", "best"}
    assert set(shown["counts"]) == {"completed", "stopped", "failed", "running", "interrupted"}
    assert shown["best"]["trial_id"] == "00002"
    assert "Best trial 00002, epoch 1 of 2" in call("show", "digits").stdout
    assert call("show", digits).stdout


def test_what_was_measured_of_the_test_split_is_shown_and_nothing_measured(digits):
    results = Results(digits)
    measured = {"trial_id": "00002", "epoch": 1, "test_accuracy": 0.875}
    measured["checkpoint_sha256"] = results.trials["00002"].checkpoints[0].sha256
    record_test(digits, "00002", measured)
    assert "  test_accuracy  0.875  (held-out test split)" in call("show", "digits").stdout
    assert json.loads(call("show", "digits", "--json").stdout)["test"] == measured
    record_test(digits, "00002", {**measured, "checkpoint_sha256": "0" * 64})  # of other weights
    assert "test_accuracy" not in call("show", "digits").stdout


def test_it_imports_nothing_that_takes_long(digits):
    main = "cli.main(['show', sys.argv[1]], standalone_mode=False)"
    done = ran(f"import sys; from tuner.cli.main import cli; {main}", digits)
    assert "Best trial 00002" in done.stdout
    assert not done.modules & {"ray", "torch", "pandas", "numpy", "yaml"}


def test_a_damaged_journal_is_exit_code_1(digits):
    (digits / "journal.jsonl").write_text("x\n{}\n")
    done = tuner("show", "digits")
    assert (done.returncode, done.stdout) == (1, "")
    assert "journal.jsonl, line 1: not a line of JSON" in done.stderr
    assert "damaged" in call("ls").stdout
