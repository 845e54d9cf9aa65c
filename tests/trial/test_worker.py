"""A worker in a plain Python process: one Learner on its device, and its state."""

import os

import pytest
import torch
from torch import distributed as dist

from tuner.spec.sections import Objective, Resources, Timeouts
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.worker import Worker


class Counter:
    """Counts its steps."""

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


class Echo(Counter):
    """Reports what it was built with."""

    def step(self):
        return {**super().step(), "built_with": self.built_with}


class Loads(Counter):
    """Waits for a DataLoader."""

    def step(self):
        list(torch.utils.data.DataLoader([1, 2]))
        return super().step()


def context(folder, *, cpus=2, gpus=0, ranks=1, **changes):
    fields = {
        "location": str(folder),
        "trainable": "test_worker:Counter",
        "constants": {"seed": 1, "epochs": 3},
        "objective": Objective(metric="steps"),
        "epochs": 3,
        "resources": Resources(cpus=cpus, gpus=gpus, workers=ranks),
        "timeouts": Timeouts(report_s=60, ranks_s=60),
        "sys_path": (),
        "directory": str(folder),
    }
    return TrialContext(**{**fields, **changes})


@pytest.mark.parametrize(("name", "waits"), [("Loads", True), ("Counter", False)])
def test_step_measures_the_time_of_data_loaders(tmp_path, name, waits):
    worker = Worker(context(tmp_path, trainable=f"test_worker:{name}"))
    worker.begin(Assignment("00000", {}))
    assert ("data_s" in worker.step()[1]) == waits


@pytest.mark.parametrize(("cpus", "threads", "seed"), [(2, 2, None), (0.5, 1, 7)])
def test_worker_steps_the_learner_of_a_trial_on_its_cpus(tmp_path, cpus, threads, seed):
    worker = Worker(context(tmp_path, trainable="test_worker:Echo", cpus=cpus))
    worker.begin(Assignment("00000", {"lr": 0.1}, seed=seed))
    report, memory = worker.step()
    assert (report["steps"], report["threads"]) == (1, threads)
    constants = {"seed": seed or 1, "epochs": 3}
    assert report["built_with"] == ({"lr": 0.1}, constants, "cpu", 0, 1)
    assert memory["peak_memory_mib"] >= memory["memory_mib"] > 10


class Careless(Counter):
    """Sets how the whole process computes, as a tutorial may say."""

    def __init__(self, config, constants, **rank_arguments):
        super().__init__(config, constants, **rank_arguments)
        self.before = numerics()
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        torch.use_deterministic_algorithms(True)

    def step(self):
        return {"found": self.before}


def numerics():
    cudnn = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    return (
        *(torch.get_default_dtype(), torch.get_float32_matmul_precision()),
        *(matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark),
        torch.are_deterministic_algorithms_enabled(),
    )


def test_worker_restores_numerics_between_trials(tmp_path):
    before = numerics()
    worker = Worker(context(tmp_path, trainable="test_worker:Careless"))
    for trial_id in ("00000", "00001"):
        worker.begin(Assignment(trial_id, {}))
        assert worker.step()[0]["found"] == before
        assert numerics() != before
        worker.end()
        assert numerics() == before


def test_join_names_the_gpu_of_the_rank(tmp_path, monkeypatch):
    """NCCL would guess it by the rank, and every rank sees its own GPU as the first."""
    groups = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        dist, "init_process_group", lambda *given, **more: groups.append(more)
    )
    worker = Worker(context(tmp_path, gpus=1, ranks=2), rank=1)
    worker._rendezvous = "met"
    worker.join("127.0.0.1", 1)
    assert groups[0]["device_id"] == torch.device("cuda", 0)


def test_worker_compiles_on_its_cpus(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "")
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS")
    Worker(context(tmp_path, cpus=3))
    assert os.environ["TORCHINDUCTOR_COMPILE_THREADS"] == "3"
    Worker(context(tmp_path, cpus=1))
    assert os.environ["TORCHINDUCTOR_COMPILE_THREADS"] == "3"  # what is set stays
