"""What of a working directory is sent to the nodes."""

import sys

import pytest

from tuner import ray_compat
from tuner.cluster.joined.runtime_env import runtime_env
from tuner.errors import UsageError


@pytest.fixture
def directory(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    (folder / "results" / "x").mkdir(parents=True)
    (folder / "mine.py").write_text("x = 1\n")
    for name in (ray_compat.IN_A_JOB, *ray_compat.FOR_WORKERS):
        monkeypatch.delenv(name, raising=False)
    return folder


def env_of(directory, **changes):
    given = {"code": True, "storage": directory / "results", "most_bytes": 1000, **changes}
    return runtime_env(directory, given.pop("storage"), **given)


def test_the_folder_is_sent_without_the_results(directory):
    (directory / "results" / "x" / "state.pt").write_bytes(bytes(5000))
    sent = env_of(directory)
    assert sent["working_dir"] == str(directory)
    assert sent["excludes"] == ["/results/"]
    for storage in (directory, directory.parent / "elsewhere"):
        assert env_of(directory, storage=storage, most_bytes=9000)["excludes"] == []


def test_folder_is_not_sent_for_code_that_ships_nor_by_a_job(directory, monkeypatch):
    assert "working_dir" not in env_of(directory, code=False)
    monkeypatch.setenv(ray_compat.IN_A_JOB, "{}")
    assert "working_dir" not in env_of(directory)


def test_what_is_too_large_is_refused_with_the_largest(directory):
    (directory / "data").mkdir()
    (directory / "data" / "images").write_bytes(bytes(3 << 20))
    with pytest.raises(UsageError, match=r"data \(3 MiB\)\..* \.rayignore"):
        env_of(directory)


@pytest.mark.parametrize("name", [".gitignore", ".rayignore"])
def test_what_is_ignored_does_not_count(directory, name):
    (directory / "data").mkdir()
    (directory / "data" / "images").write_bytes(bytes(5000))
    (directory / ".git").mkdir()
    (directory / ".git" / "pack").write_bytes(bytes(5000))
    (directory / name).write_text("data/\n")
    env_of(directory)


def test_modules_are_found_in_the_same_folders_below_it(directory, monkeypatch):
    (directory / "spaces").mkdir()
    monkeypatch.setattr(sys, "path", [str(directory), str(directory / "spaces"), "/elsewhere"])
    assert env_of(directory)["env_vars"] == {"PYTHONPATH": "spaces"}


def test_what_workers_read_goes_with_it(directory, monkeypatch):
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    assert env_of(directory, code=False) == {"env_vars": {"RAY_CHDIR_TO_TRIAL_DIR": "0"}}
