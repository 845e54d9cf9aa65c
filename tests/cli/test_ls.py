"""tuner ls."""

import json

from commands import call


def test_ls(digits):
    assert "digits" in call("ls").stdout
    [entry] = json.loads(call("ls", "--json").stdout)
    assert (entry["name"], entry["status"], entry["best"]) == ("digits", "completed", 0.9)


def test_ls_of_nothing(here):
    assert json.loads(call("ls", "--json").stdout) == []
    assert "start with: tuner run digits" in call("ls").stdout


def test_storage_is_the_flag_else_the_environment(digits, here, monkeypatch):
    assert json.loads(call("ls", "--storage", here / "nothing", "--json").stdout) == []
    monkeypatch.setenv("TUNER_STORAGE", str(here / "nothing"))
    assert json.loads(call("ls", "--json").stdout) == []
    assert len(json.loads(call("ls", "--storage", here / "results", "--json").stdout)) == 1
