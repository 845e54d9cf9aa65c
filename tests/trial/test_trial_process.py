"""A trial's process: its folder, the hints of its errors, and whether it trains another trial."""

import gc
import importlib
import os
import signal
import subprocess
import weakref
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from test_worker import Counter, context

from tuner.errors import StorageError
from tuner.places import START_DIR, TRIAL_DIR, start_dir, trial_dir
from tuner.spec.loading import load_trainable
from tuner.trial import torch_compat, trial_process
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure
from tuner.trial.trial_process import (
    BOUND_MIB,
    Leftovers,
    TrialProcess,
    WorkingDirectory,
    why_not_again,
)
from tuner.trial.worker import Worker


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


# --- whether it trains another trial


@pytest.mark.parametrize(
    ("failure", "grown_mib", "reason"),
    [
        (None, 0, None),
        (None, BOUND_MIB, None),
        (None, BOUND_MIB + 1, "it has kept 513 MiB of earlier trials"),
        (Failure("nan", ""), 0, None),
        (Failure("bad_report", ""), 0, None),
        (Failure("exception", ""), 0, "a trial failed in it (exception)"),
        (Failure("oom", ""), 0, "a trial failed in it (oom)"),
        (Failure("exception", "", poisoned=True), 0, "its device cannot be used any more"),
    ],
)
def test_when_a_process_is_not_used_again(failure, grown_mib, reason):
    assert why_not_again(failure=failure, grown_mib=grown_mib) == reason


def test_what_is_kept_counts_from_the_end_of_the_first_trial():
    held = iter([300.0, 290.0, 350.0, 900.0])
    leftovers = Leftovers(lambda: next(held))
    cleared = [(leftovers.clear(), leftovers.grown_mib) for _ in range(4)]
    spent = "it has kept 600 MiB of earlier trials"
    assert cleared == [(None, 0), (None, 0), (None, 50), (spent, 600)]


def test_the_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("OF_ANOTHER", "before")
    before = dict(os.environ)
    leftovers = Leftovers()
    leftovers.begin()
    os.environ["OF_THE_TRIAL"] = "1"
    os.environ["OF_ANOTHER"] = "changed"
    del os.environ["PATH"]
    leftovers.clear()
    assert dict(os.environ) == before


def test_a_device_that_cannot_be_used_any_more_keeps_nothing_from_being_cleared(monkeypatch):
    def fail():
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(trial_process, "release", fail)
    leftovers = Leftovers()
    leftovers.begin()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert leftovers.clear() == "its device cannot be used any more"
    assert child.wait() == -signal.SIGKILL


def test_every_network_is_compiled_once_and_counts_for_one_trial():
    compiled, counts, config = [], [], importlib.import_module("torch._dynamo.config")

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    wrapped = partial(torch.compile, backend=backend)
    with patch.object(torch, "compile", wrapped), config.patch(recompile_limit=2):
        leftovers = Leftovers()
        for widths in ((2, 3, 4), (4,)):
            leftovers.begin()
            for width in widths:
                network = torch_compat.Compiled(torch.nn.Sequential(torch.nn.Linear(1, width)))
                network(torch.ones(4, 1))
                network(torch.ones(3, 1))  # of another size: as it is
            leftovers.clear()
            counts.append((len(compiled), config.recompile_limit))
    assert counts == [(3, 2), (4, 2)]


def test_a_process_that_a_trial_left_running_ends_and_so_does_its_worker():
    leftovers = Leftovers()
    leftovers.begin()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert leftovers.clear() == "a trial left 1 process running"
    assert child.wait() == -signal.SIGKILL


def test_after_the_first_trial_only_what_is_new_is_searched_for_garbage():
    gc.unfreeze()
    leftovers = Leftovers()
    leftovers.clear()
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < 1000
    cycle = [torch.ones(1)]
    cycle.append(cycle)
    tensor = weakref.ref(cycle[0])
    del cycle
    leftovers.clear()
    assert tensor() is None
    gc.unfreeze()


class Hoarder:
    """Makes 40 MiB of tensors; with `keep` the module holds on to them."""

    hoard: list[torch.Tensor] = []  # noqa: RUF012
    latest = None  # a weak reference to the tensors made last

    def __init__(self, config, constants, *, device, rank, world_size):
        self.weights = torch.ones(40 << 18)
        type(self).latest = weakref.ref(self.weights)
        if config["keep"]:
            self.hoard.append(self.weights)

    def step(self):
        return {}


def test_what_a_worker_keeps_between_trials_is_measured(tmp_path):
    used = Worker(context(tmp_path, trainable="test_trial_process:Hoarder"))
    hoarder = load_trainable("test_trial_process:Hoarder")  # of the module as the worker imports it
    grown = []
    for keep in (False, False, False, True, True):
        used.begin(Assignment("00000", {"keep": keep}))
        weights = hoarder.latest
        used.end()
        grown.append(used._process._leftovers.grown_mib)
        assert (weights() is not None) == keep
    hoarder.hoard.clear()
    gc.collect()
    assert max(grown[:3]) < 15
    assert grown[3] == pytest.approx(40, abs=15)
    assert grown[4] == pytest.approx(80, abs=15)
