"""A trial's process, and its folder; errors name files of the start directory that it misses."""

import os
from pathlib import Path

import pytest
from test_worker import Counter, context

from tuner.errors import StorageError
from tuner.places import START_DIR, TRIAL_DIR, start_dir, trial_dir
from tuner.trial.context import Assignment
from tuner.trial.trial_process import TrialProcess, WorkingDirectory, hint_of


@pytest.fixture
def start(tmp_path, monkeypatch):
    """The working directory, with a file and an experiment in it."""
    (tmp_path / "data.txt").write_text("data")
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def directory(start):
    made = WorkingDirectory(start / "x")
    yield made
    made.leave()


def test_enter_then_leave_returns_to_the_start_directory(directory, start):
    folder = start / "x" / "trials" / "0" / "files"
    directory.enter(folder)
    assert Path.cwd() == folder == trial_dir()
    assert start_dir() == start
    Path("out").touch()
    os.chdir("/")  # as a trial may
    directory.leave()
    assert Path.cwd() == start == trial_dir() == start_dir()
    assert not {START_DIR, TRIAL_DIR} & os.environ.keys()
    assert [path.name for path in folder.iterdir()] == ["out"]
    directory.enter(folder)  # again, as after a resume
    assert Path("out").exists()


def test_leave_removes_an_empty_folder(directory, start):
    directory.enter(start / "x" / "files")
    directory.leave()
    assert list((start / "x").iterdir()) == []


def test_enter_stays_makes_a_folder_on_request(directory, start):
    folder = start / "x" / "files"
    directory.enter(folder, stays=True)
    assert Path.cwd() == start
    assert not folder.exists()
    assert trial_dir() == folder
    assert folder.is_dir()


def test_enter_folder_that_cannot_be_made_raises_storage_error(directory, start):
    (start / "x" / "files").write_text("in the way")
    with pytest.raises(StorageError, match=r"^cannot write .*/x/files"):
        directory.enter(start / "x" / "files")
    assert Path.cwd() == start


def test_hint_of_names_a_file_missed_by_its_relative_path(start):
    def failing(path):
        try:
            Path(path).stat()
        except FileNotFoundError as error:
            raise ValueError("no data") from error

    os.chdir("x")
    for path, told in [("data.txt", True), ("other.txt", False), ("/nowhere", False)]:
        with pytest.raises(ValueError, match="no data") as raised:
            failing(path)
        hint = hint_of(raised.value, start=start, here=start / "x")
        assert hint.startswith("; 'data.txt' lies in ") == told
        assert bool(hint) == told


class Stays(Counter):
    stays_in_start_dir = True


def test_a_trial_works_in_its_folder_and_the_next_in_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path))
    for trial_id in ("00000", "00001"):
        assert process.begin(Assignment(trial_id, {})).__name__ == "Counter"
        assert Path.cwd() == tmp_path / "trials" / trial_id / "files"
        os.environ["LEFT_BY_A_TRIAL"] = trial_id
        assert process.end() is None
        assert Path.cwd() == tmp_path
        assert "LEFT_BY_A_TRIAL" not in os.environ
    assert not list(tmp_path.glob("trials/*/files"))


def test_a_trainable_may_stay_where_the_search_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path, trainable="test_trial_process:Stays"))
    process.begin(Assignment("00000", {}))
    assert Path.cwd() == tmp_path
    process.end()


def test_a_module_is_imported_where_the_search_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reads_at_import.py").write_text(
        "TEXT = open('data.txt').read()\ndef train(config): pass\n"
    )
    (tmp_path / "data.txt").write_text("data")
    process = TrialProcess(context(tmp_path, trainable="reads_at_import:train"))
    process.begin(Assignment("00000", {}))
    process.end()
