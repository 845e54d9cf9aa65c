"""A trial works in a folder of its own, and is told of what lies where the search was started."""

import os
from pathlib import Path

import pytest

from tuner.errors import StorageError
from tuner.places import START_DIR, TRIAL_DIR, start_dir, trial_dir
from tuner.trial.working_directory import MissedPaths, WorkingDirectory, hint_of


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


def test_it_is_entered_and_left(directory, start):
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


def test_an_empty_one_does_not_stay(directory, start):
    directory.enter(start / "x" / "files")
    directory.leave()
    assert list((start / "x").iterdir()) == []


def test_who_stays_has_a_folder_when_it_asks_for_one(directory, start):
    folder = start / "x" / "files"
    directory.enter(folder, stays=True)
    assert Path.cwd() == start
    assert not folder.exists()
    assert trial_dir() == folder
    assert folder.is_dir()


def test_one_that_cannot_be_made_is_no_fault_of_the_trial(directory, start):
    (start / "x" / "files").write_text("in the way")
    with pytest.raises(StorageError, match=r"^cannot write .*/x/files"):
        directory.enter(start / "x" / "files")
    assert Path.cwd() == start


def test_what_is_read_and_lies_where_the_search_was_started_is_told_once(directory, start, capfd):
    (start / "folder").mkdir()
    directory.enter(start / "x" / "files")
    for _ in range(2):
        for read in (Path("data.txt").read_bytes, lambda: os.listdir("folder")):
            with pytest.raises(FileNotFoundError):
                read()
    Path("data.txt").write_text("its own")  # no reader
    Path("data.txt").read_text()
    with pytest.raises(FileNotFoundError):
        Path("nowhere.txt").read_bytes()
    directory.leave()
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(" lies in ")[0] for line in lines] == [
        "warning: 'data.txt'",
        "warning: 'folder'",
    ]
    assert lines[0].endswith("name it as tuner.start_dir() / 'data.txt'")


def test_what_is_written_is_not_told(start, capfd):
    look = MissedPaths(start)
    os.chdir("x")
    look("data.txt", os.O_CREAT | os.O_WRONLY)
    assert not capfd.readouterr().err
    look("data.txt", os.O_RDONLY)
    assert capfd.readouterr().err


def test_the_message_of_an_error_is_completed(start):
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
