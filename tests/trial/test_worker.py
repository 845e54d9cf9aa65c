"""A worker in a plain Python process: one Learner on its device, and its state."""

import sys
from pathlib import Path

import pytest
import torch

from tuner.errors import CheckpointError
from tuner.trial.assignment import Assignment
from tuner.trial.worker import Plan, Worker


class Counter:
    """Counts its steps, and says what it was built with."""

    def __init__(self, config, constants, *, device, rank, world_size):
        self.built_with = (config, constants, device.type, rank, world_size)
        self.steps = 0

    def step(self):
        self.steps += 1
        return {"steps": self.steps, "threads": torch.get_num_threads()}

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


def plan(folder, **changes):
    fields = {
        "place": str(folder),
        "trainable": "test_worker:Counter",
        "constants": {"seed": 1, "epochs": 3},
        "metric": "steps",
        "epochs": 3,
        "cpus": 2,
        "gpus": 0,
        "ranks": 1,
        "split": 1,
        "report_timeout_s": 60,
        "ranks_timeout_s": 60,
        "sys_path": (),
        "directory": str(folder),
    }
    return Plan(**{**fields, **changes})


def test_the_users_modules_and_files_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["a"])
    plan(tmp_path, sys_path=("a", "b")).enter()
    assert (sys.path, Path.cwd()) == (["a", "b"], tmp_path)
    plan(tmp_path, directory=str(tmp_path / "not here")).enter()
    assert Path.cwd() == tmp_path


def test_it_builds_and_steps_the_learner_on_as_many_threads_as_cpus(tmp_path):
    worker = Worker(plan(tmp_path))
    worker.begin(Assignment("00000", {"lr": 0.1}))
    config, constants, *place = worker._learner.built_with
    assert (config, constants) == ({"lr": 0.1}, {"seed": 1, "epochs": 3})
    assert place == ["cpu", 0, 1]
    report, memory = worker.step()
    assert report == {"steps": 1, "threads": 2}
    assert memory["peak_memory_mib"] >= memory["memory_mib"] > 10


def test_a_seed_of_the_trials_own_takes_the_place_of_the_experiments(tmp_path):
    worker = Worker(plan(tmp_path))
    worker.begin(Assignment("00000", {"lr": 0.1}, seed=7))
    assert worker._learner.built_with[:2] == ({"lr": 0.1}, {"seed": 7, "epochs": 3})


def test_a_share_of_a_cpu_is_one_thread(tmp_path):
    worker = Worker(plan(tmp_path, cpus=0.5))
    worker.begin(Assignment("00000", {}))
    assert worker.step()[0]["threads"] == 1


def test_another_worker_goes_on_from_what_it_saved(tmp_path):
    first = Worker(plan(tmp_path))
    first.begin(Assignment("00000", {}))
    first.step()
    first.step()
    saved = first.save(2).as_dict()
    assert saved.pop("epoch") == 2
    second = Worker(plan(tmp_path))
    second.begin(Assignment("00000", {}, epoch=2, checkpoint=saved))
    assert second.step()[0]["steps"] == 3


def test_a_damaged_checkpoint_is_not_trained_on(tmp_path):
    worker = Worker(plan(tmp_path))
    worker.begin(Assignment("00000", {}))
    saved = worker.save(1).as_dict()
    (tmp_path / saved["path"]).write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="damaged"):
        worker.begin(Assignment("00000", {}, epoch=1, checkpoint=saved))


def test_a_used_worker_begins_anew(tmp_path):
    worker = Worker(plan(tmp_path))
    for trial_id in ("00000", "00001"):
        worker.begin(Assignment(trial_id, {}))
        assert worker.step()[0]["steps"] == 1
        worker.save(1)
        worker.end()
    assert sorted(p.name for p in (tmp_path / "trials").iterdir()) == ["00000", "00001"]
