"""A trial works in its folder; an error names a file of the start directory that it misses."""

import os
from pathlib import Path

import pytest

from tuner.errors import StorageError
from tuner.places import START_DIR, TRIAL_DIR, start_dir, trial_dir
from tuner.trial.working_directory import WorkingDirectory, hint_of


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
