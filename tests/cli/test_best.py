"""tuner best."""

import json
from pathlib import Path

from commands import call, tuner
from synthetic import Writer, make_folder


def test_best(digits):
    best = json.loads(call("best", "digits", "--json").stdout)
    keys = {"trial_id", "config", "epoch", "metrics", "checkpoint", "shown"}
    assert set(best) >= keys
    assert (best["trial_id"], best["epoch"], best["shown"]) == ("00002", 1, "searched")
    assert Path(best["checkpoint"]).is_file()
    ranked = json.loads(call("best", "digits", "--top", "9", "--json").stdout)
    assert [trial["trial_id"] for trial in ranked] == ["00002", "00001", "00000"]
    assert json.loads(call("best", "digits", "--top", "1", "--json").stdout) == [best]
    worst = call("best", "digits", "--metric", "val_accuracy", "--mode", "min", "--json")
    assert json.loads(worst.stdout)["trial_id"] == "00000"
    assert call("best", "digits", "--top", "2").stdout.count("trial 0000") == 2


def test_an_unknown_metric_is_told_with_the_choices(digits):
    done = tuner("best", "digits", "--metric", "acc")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown metric 'acc'" in done.stderr
    assert "available: val_accuracy" in done.stderr


def test_no_usable_trial_is_exit_code_1(here):
    writer = Writer(make_folder(here / "results" / "bad"))
    writer.trial(0, [], error=("nan", "m"))
    writer.end()
    done = tuner("best", "bad")
    assert (done.returncode, done.stdout) == (1, "")
    assert "bad has no usable trial: 1 failed (nan)" in done.stderr
    assert json.loads(call("show", "bad", "--json").stdout)["best"] is None
