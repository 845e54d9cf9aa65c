"""tuner resume: what it goes on with, and how."""

import contextlib
import json

import commands
import pytest
from commands import A_FUNCTION, CONNECT, call
from synthetic import Writer, make_folder

from tuner.search.resuming import Extension


@pytest.fixture
def interrupted(here):
    writer = Writer(make_folder(here / "results" / "digits", trainable=A_FUNCTION))
    writer.trial(0, [0.5], end=None)
    writer.kill()
    return writer.folder


def test_options_say_what_more_there_is_to_do(interrupted, ended, monkeypatch):
    resumed = []
    monkeypatch.setattr(CONNECT, lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(
        "tuner.search.run.resume_experiment",
        lambda folder, *, more: resumed.append((folder.resolve(), more)) or ended,
    )
    assert call("resume", "digits").return_value == 0
    done = call("resume", "digits", "--retry-failed", "--add-samples", "3", "--time-budget", "2m")
    assert "Best trial 00000" in done.stdout
    assert done.stderr == f"importing {A_FUNCTION} ({commands.__file__}), which digits names\n"
    assert resumed == [
        (interrupted, Extension(0, None, False)),
        (interrupted, Extension(3, 120, True)),
    ]


def test_keys_and_values_are_changes(interrupted, ended, monkeypatch):
    resumed = []
    monkeypatch.setattr(CONNECT, lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(
        "tuner.search.run.resume_experiment", lambda folder, *, more: resumed.append(more) or ended
    )
    assert call("resume", "digits", "scheduler.max_t=20", "log=[]").return_value == 0
    assert resumed == [Extension(changes={"scheduler.max_t": 20, "log": []})]
    refused = call("resume", "digits", "search.strategy=bohb", "scheduler.max_t=5").exception
    assert "tuner run --like digits --search bohb" in str(refused)
    assert "scheduler.max_t: can only grow on a resume, from 10, got 5" in str(refused)
    assert len(resumed) == 1


def test_with_nothing_to_do_it_says_so_and_starts_nothing(digits, monkeypatch):
    monkeypatch.setattr(CONNECT, None)
    done = call("resume", "digits")
    assert done.return_value == 3  # a trial has failed
    [line] = done.stdout.splitlines()
    assert line.startswith("digits is completed, nothing is left to do; for more trials: ")
    assert done.stderr == ""
    done = call("resume", "digits", "--json", "--no-evaluate")
    assert json.loads(done.stdout)["status"] == "completed"
    assert done.stderr.startswith("digits is completed")
