"""tuner prune."""

import json
from contextlib import ExitStack

import pytest
from commands import call
from synthetic import Writer, make_folder

from tuner.cli import prune
from tuner.experiment.journal import Journal


@pytest.fixture
def two(here):
    writer = Writer(make_folder(here / "results" / "two"))
    for number, value in enumerate([0.9, 0.5]):
        writer.checkpoint(writer.trial(number, [value]), 1, b"x" * 2048)
    writer.end()
    return writer.folder


def test_it_says_what_it_would_free_and_frees_it(two):
    checkpoints = two / "trials" / "00001" / "checkpoints"
    told = "two: checkpoints of 1 trial, 2 KiB\n"
    assert call("prune", "two", "--keep", 1, "--dry-run").stdout == told
    assert "give --yes" in str(call("prune", "two", "--keep", 1).exception)
    assert checkpoints.exists()
    done = call("prune", "two", "--keep", 1, "--yes", "--json")
    assert json.loads(done.stdout) == {
        "folders": {"trials/00001/checkpoints": 2048},
        "freed": 2048,
        "kept": ["00000"],
    }
    assert not checkpoints.exists()
    assert (two / "trials" / "00000" / "checkpoints" / "1" / "state.pt").exists()
    assert call("prune", "two", "--yes").stdout == "two: checkpoints of 0 trials, 0 B\n"


def test_what_runs_is_refused(two):
    with Journal.open(two):
        assert "two is running" in str(call("prune", "two", "--keep", 1, "--yes").exception)


def test_a_resume_that_begins_while_it_asks_keeps_what_it_goes_on_from(two, monkeypatch):
    with ExitStack() as driver:

        def begin(*args, **kwargs):
            driver.enter_context(Journal.open(two))

        monkeypatch.setattr(prune, "ask", begin)
        assert "another driver" in str(call("prune", "two", "--keep", 1).exception)
    assert (two / "trials" / "00001" / "checkpoints" / "1" / "state.pt").exists()
