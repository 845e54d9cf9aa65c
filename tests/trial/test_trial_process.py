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
from tuner.trial import torch_compat, trial_process
from tuner.trial.context import Assignment
from tuner.trial.failures import Failure
from tuner.trial.trial_process import BOUND_MIB, Leftovers, TrialProcess, why_not_again


class Stays(Counter):
    stays_in_start_dir = True


def test_begin_goes_to_the_trials_folder_and_end_comes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path))
    for trial_id in ("00000", "00001"):
        assert process.begin(Assignment(trial_id, {})).__name__ == "Counter"
        assert Path.cwd() == trial_dir() == tmp_path / "trials" / trial_id / "files"
        assert start_dir() == tmp_path
        os.environ["LEFT_BY_A_TRIAL"] = trial_id
        if trial_id == "00000":
            Path("out").touch()
        os.chdir("/")  # as a trial may
        assert process.end() is None
        assert Path.cwd() == trial_dir() == start_dir() == tmp_path
        assert not {START_DIR, TRIAL_DIR, "LEFT_BY_A_TRIAL"} & os.environ.keys()
    assert list(tmp_path.glob("trials/*/files")) == [tmp_path / "trials/00000/files"]


def test_begin_in_a_folder_that_cannot_be_made_raises_storage_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trials/00000").mkdir(parents=True)
    (tmp_path / "trials/00000/files").write_text("in the way")
    with pytest.raises(StorageError, match=r"^cannot write .*/files"):
        TrialProcess(context(tmp_path)).begin(Assignment("00000", {}))
    assert Path.cwd() == tmp_path


def test_begin_leaves_a_trainable_that_stays_in_the_start_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = TrialProcess(context(tmp_path, trainable="test_trial_process:Stays"))
    process.begin(Assignment("00000", {}))
    assert Path.cwd() == tmp_path
    assert trial_dir() == tmp_path / "trials/00000/files"
    process.end()


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
def test_why_not_again_names_the_reason(failure, grown_mib, reason):
    assert why_not_again(failure=failure, grown_mib=grown_mib) == reason


def test_leftovers_measure_growth_since_the_first_trial():
    held = iter([300.0, 290.0, 350.0, 900.0])
    leftovers = Leftovers(lambda: next(held))
    cleared = [(leftovers.clear(), leftovers.grown_mib) for _ in range(4)]
    spent = "it has kept 600 MiB of earlier trials"
    assert cleared == [(None, 0), (None, 0), (None, 50), (spent, 600)]


def test_clear_restores_the_environment(monkeypatch):
    monkeypatch.setenv("OF_ANOTHER", "before")
    before = dict(os.environ)
    leftovers = Leftovers()
    leftovers.begin()
    os.environ["OF_THE_TRIAL"] = "1"
    os.environ["OF_ANOTHER"] = "changed"
    del os.environ["PATH"]
    leftovers.clear()
    assert dict(os.environ) == before


def test_clear_with_broken_device_still_ends_children(monkeypatch):
    def fail():
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(trial_process, "release", fail)
    leftovers = Leftovers()
    leftovers.begin()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert leftovers.clear() == "its device cannot be used any more"
    assert child.wait() == -signal.SIGKILL


def test_networks_compile_once_per_trial():
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


def test_clear_ends_a_child_left_running():
    leftovers = Leftovers()
    leftovers.begin()
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert leftovers.clear() == "a trial left 1 process running"
    assert child.wait() == -signal.SIGKILL


def test_clear_freezes_the_garbage_of_the_first_trial():
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
