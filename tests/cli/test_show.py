"""tuner show."""

import json

from commands import call, tuner


def test_show(digits):
    shown = json.loads(call("show", "digits", "--json").stdout)
    assert set(shown) == {"name", "status", "counts", "best"}
    assert set(shown["counts"]) == {"completed", "stopped", "failed", "running", "interrupted"}
    assert shown["best"]["trial_id"] == "00002"
    assert "Best trial 00002, epoch 1 of 2" in call("show", "digits").stdout
    assert call("show", digits).stdout


def test_a_damaged_journal_is_exit_code_1(digits):
    (digits / "journal.jsonl").write_text("x\n{}\n")
    done = tuner("show", "digits")
    assert (done.returncode, done.stdout) == (1, "")
    assert "journal.jsonl, line 1: not a line of JSON" in done.stderr
    assert "damaged" in call("ls").stdout
