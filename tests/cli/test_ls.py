"""tuner ls."""

import json

from commands import call
from synthetic import Writer, make_folder


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


def test_ls_filters_sorts_and_has_other_columns(here):
    for name, value in {"a": 0.5, "b": 0.9, "c": 0.7}.items():
        writer = Writer(make_folder(here / "results" / name))
        writer.trial(0, [value])
        writer.end()
    lines = call("ls", "--where", "val_accuracy > 0.6", "--sort", "best").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "c", "b"]
    done = call("ls", "--columns", "name,strategy,time,seed", "--reverse", "--strategy", "random")
    assert done.stdout.splitlines() == [
        "NAME  STRATEGY  TIME  SEED",
        *(f"{name}     random    4s    1" for name in "cba"),
    ]
    assert "no name 'x' here" in str(call("ls", "--columns", "name,x").exception)
    assert [
        e["name"] for e in json.loads(call("ls", "--where", "best < 0.6", "--json").stdout)
    ] == ["a"]
