"""tuner control, with a driver that answers as it is told to."""

import pytest
from commands import call, fetch_json, refusal
from synthetic import Writer, make_folder

from tuner.cli import control as command
from tuner.errors import SpecError, UsageError
from tuner.experiment.control import read_requests
from tuner.experiment.folder import ExperimentFolder


@pytest.fixture
def driven(here):
    """An experiment that is driven, with a trial that has ended and one that runs."""
    space = {"lr": "loguniform(0.0001, 1)", "batch_size": "choice([32, 64])"}
    folder = make_folder(
        here / "results/digits", search={"strategy": "random", "space": space}
    )
    writer = Writer(folder)
    writer.trial(0, [0.5], config={"lr": 0.1, "batch_size": 32})
    writer.trial(1, [0.5], end=None, config={"lr": 0.2, "batch_size": 64})
    yield writer
    writer.journal.close()


@pytest.fixture
def answering(driven, monkeypatch):
    """Its driver answers while the command waits; `refused` is why it does nothing."""
    refused = {}

    def answer(seconds):
        [pending] = read_requests(
            ExperimentFolder(driven.folder), but=refused.get("answered", ())
        )
        control = pending.control.model_dump(mode="json")
        why = {"refused": refused["why"]} if "why" in refused else {}
        driven.add("control", id=pending.id, control=control, by=pending.by, **why)
        driven.journal.sync()

    monkeypatch.setattr(command.time, "sleep", answer)
    return refused


@pytest.mark.parametrize(
    "words",
    [
        ["stop-trial", "1"],
        ["pause"],
        ["max-concurrent", "4"],
        ["max-concurrent", "none"],
        ["time-budget", "2h"],
        ["try", "lr=1e-2", "batch_size=64"],
        ["try", "lr=1e-2", "--like", "0"],
    ],
    ids=" ".join,
)
def test_control_sends_the_verb_and_shows_the_answer(snapshot, answering, words):
    output = fetch_json("control", "digits", *words)
    snapshot.compare_value((output["control"], output["answer"]))
    assert "@" in output["by"]


def test_control_refused_prints_why(answering):
    answering["why"] = "the search is not paused"
    done = call("control", "digits", "go-on")
    output = "go-on: not done: the search is not paused\n"
    assert (done.return_value, done.stdout) == (2, output)


def test_control_without_an_answer_says_so(driven):
    done = call("control", "digits", "pause", "--wait", "0s")
    output = "pause: requested; the driver of digits has not answered yet\n"
    assert (done.return_value, done.stdout) == (0, output)


def test_control_of_a_killed_driver_is_not_done(driven, monkeypatch):
    monkeypatch.setattr(command.time, "sleep", lambda seconds: driven.kill())
    done = call("control", "digits", "pause")
    output = "pause: not done: the driver of digits has gone; a resume will be asked\n"
    assert (done.return_value, done.stdout) == (2, output)


@pytest.mark.parametrize(
    "words",
    [
        ["stop-trial"],
        ["pause", "now"],
        ["pause", "--like", "0"],
        ["try"],
        ["num-samples", "many"],
        ["try", "lr=7", "--like", "0"],
        ["try", "lr"],
    ],
    ids=" ".join,
)
def test_control_with_wrong_values_is_refused(snapshot, driven, words):
    snapshot(refusal("control", "digits", *words, kind=UsageError | SpecError))
    assert read_requests(ExperimentFolder(driven.folder)) == []
