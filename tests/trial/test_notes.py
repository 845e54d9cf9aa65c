"""What a process leaves word of before it ends, and what is made of it."""

import os

import pytest

from tuner.trial import notes
from tuner.trial.failures import Failure

HUNG = Failure("timeout", "did not start")
OURS = f"its worker process has died. pid: {os.getpid()} namespace: x"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(notes.FOLDER, str(tmp_path))
    return tmp_path


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(notes.time, "monotonic", lambda: now[0])
    return now


def test_what_is_noted_of_a_process_is_why_it_ended(folder):
    notes.write(folder, os.getpid(), Failure("oom", "the most of all"))
    assert notes.of(OURS) == Failure("oom", "the most of all")
    assert notes.of("pid: 1 has died") is None
    assert notes.of("nobody") is None


def test_who_is_not_done_in_time_has_hung_and_who_dies_before_has_not(folder, clock):
    with notes.unless_done(HUNG, 5):
        clock[0] = 104.9
        assert notes.of(OURS) is None
        clock[0] = 105.0
        assert notes.of(OURS) == HUNG
    assert notes.of(OURS) is None
    assert list(folder.iterdir()) == []


def test_of_several_reasons_the_one_that_has_come_is_told(folder, clock):
    with notes.unless_done(HUNG, 5):
        notes.write(folder, os.getpid(), Failure("oom", "m"))
        assert notes.of(OURS).kind == "oom"


def test_without_a_folder_nothing_is_left_and_nothing_found(monkeypatch, tmp_path):
    monkeypatch.delenv(notes.FOLDER, raising=False)
    with notes.unless_done(HUNG, 0):
        assert notes.of(OURS) is None
    monkeypatch.setenv(notes.FOLDER, str(tmp_path / "gone"))
    with notes.unless_done(HUNG, 0):
        assert notes.of(OURS) is None


@pytest.mark.parametrize("damage", ["", "x", "{}", "[]"])
def test_a_damaged_note_is_none(folder, damage):
    (folder / f"{os.getpid()}-oom").write_text(damage)
    assert notes.of(OURS) is None
