"""The commands tag, note, rename, prune and rm."""

import json
from contextlib import ExitStack

import pytest
from commands import call, fetch_json
from synthetic import Writer, make_folder

from tuner.cli import keep
from tuner.errors import UsageError
from tuner.experiment.journal import Journal


def test_tag_adds_shows_and_removes(digits):
    assert call("tag", "digits").stdout == "no tags\n"
    assert call("tag", "digits", "good", "cnn").stdout == "good cnn\n"
    assert fetch_json("tag", "digits", "good", "--remove") == ["cnn"]
    assert "TAGS" in call("ls").stdout
    assert "tags: cnn" in call("show", "digits").stdout
    [listed] = fetch_json("ls", "--tag", "cnn")
    assert listed["tags"] == ["cnn"]
    assert call("ls", "--tag", "good").stdout == "no experiment matches\n"


def test_note_writes_shows_and_removes(digits):
    assert call("note", "digits").stdout == "no note\n"
    assert call("note", "digits", "a first look").stdout == "a first look\n"
    assert "note: a first look" in call("show", "digits").stdout
    assert "a first look" in call("ls").stdout
    assert fetch_json("note", "digits") == "a first look"
    assert call("note", "digits", "").stdout == "no note\n"
    assert "NOTE" not in call("ls").stdout


@pytest.fixture
def two(here):
    writer = Writer(make_folder(here / "results/two"))
    for number, value in enumerate([0.9, 0.5]):
        writer.checkpoint(writer.trial(number, [value]), 1, b"x" * 2048)
    writer.end()
    return writer.folder


def test_prune_shows_and_frees_checkpoints(two):
    checkpoints = two / "trials/00001/checkpoints"
    output = "two: checkpoints of 1 trial, 2 KiB\n"
    assert call("prune", "two", "--keep", 1, "--dry-run").stdout == output
    assert "give --yes" in str(call("prune", "two", "--keep", 1).exception)
    assert checkpoints.exists()
    done = call("prune", "two", "--keep", 1, "--yes", "--json")
    freed = {
        "folders": {"trials/00001/checkpoints": 2048},
        "freed": 2048,
        "kept": ["00000"],
    }
    assert json.loads(done.stdout) == freed
    assert not checkpoints.exists()
    assert (two / "trials/00000/checkpoints/1/state.pt").exists()
    assert call("prune", "two", "--yes").stdout == "two: checkpoints of 0 trials, 0 B\n"


def test_prune_of_a_running_experiment_is_refused(two):
    with Journal.open(two):
        done = call("prune", "two", "--keep", 1, "--yes")
    assert isinstance(done.exception, UsageError)
    assert (two / "trials/00001/checkpoints/1/state.pt").exists()


def test_prune_during_a_resume_keeps_its_checkpoints(two, monkeypatch):
    with ExitStack() as driver:

        def begin(*args, **kwargs):
            driver.enter_context(Journal.open(two))

        monkeypatch.setattr(keep, "ask", begin)
        assert "another driver" in str(call("prune", "two", "--keep", 1).exception)
    assert (two / "trials/00001/checkpoints/1/state.pt").exists()


def test_rm_removes_the_folder(digits):
    done = call("rm", "digits", "--yes")
    assert done.stdout == "removed results/digits\n"
    assert "results/digits: " in done.stderr
    assert list(digits.parent.iterdir()) == []


def test_rm_of_a_running_experiment_is_refused(digits, here):
    call("rename", "digits", "other")
    folder = here / "results/other"
    with Journal.open(folder):
        done = call("rm", "other", "--yes")
    assert "other is running: end it before it is removed" in str(done.exception)
    assert folder.exists()
