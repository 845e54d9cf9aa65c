"""What of a working directory is sent to the nodes."""

import sys

import pytest

from tuner import ray_compat
from tuner.cluster.joined.runtime_env import runtime_env


@pytest.fixture
def directory(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    (folder / "results" / "x").mkdir(parents=True)
    (folder / "mine.py").write_text("x = 1\n")
    for name in (ray_compat.IN_A_JOB, *ray_compat.FOR_WORKERS):
        monkeypatch.delenv(name, raising=False)
    return folder


def env_of(directory, *, code=True, storage=None):
    return runtime_env(directory, storage or directory / "results", code=code)


def test_runtime_env_sends_the_folder_without_the_results(directory):
    sent = env_of(directory)
    assert sent["working_dir"] == str(directory)
    assert sent["excludes"] == ["/results/"]
    for storage in (directory, directory.parent / "elsewhere"):
        assert env_of(directory, storage=storage)["excludes"] == []


def test_folder_is_not_sent_for_code_that_ships_nor_by_a_job(directory, monkeypatch):
    assert "working_dir" not in env_of(directory, code=False)
    monkeypatch.setenv(ray_compat.IN_A_JOB, "{}")
    assert "working_dir" not in env_of(directory)


def test_modules_are_found_in_the_same_folders_below_it(directory, monkeypatch):
    (directory / "spaces").mkdir()
    monkeypatch.setattr(sys, "path", [str(directory), str(directory / "spaces"), "/elsewhere"])
    assert env_of(directory)["env_vars"] == {"PYTHONPATH": "spaces"}


def test_what_workers_read_goes_with_it(directory, monkeypatch):
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    assert env_of(directory, code=False) == {"env_vars": {"RAY_CHDIR_TO_TRIAL_DIR": "0"}}
