"""The commands on real Ray, with the user's own experiments in the working directory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from driven import call

from tuner.experiment.results.results import Results

LEARNER = """
from tuner.spec.experiment import ExperimentSpec

import mine.numbers  # a package of the user's own, beside experiments/


class Guess:
    metrics = ("loss",)

    def __init__(self, config, constants, *, device, rank, world_size):
        self.config, self.constants, self.epoch = config, constants, 0

    def step(self):
        self.epoch += 1
        return {"loss": mine.numbers.loss(self.config["x"]) / self.epoch}

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


def experiment():
    return ExperimentSpec(
        trainable=Guess,
        training={"epochs": 2},
        search={"strategy": "grid", "space": {"x": "grid_search([1, 2, 3])"}},
        objective={"metric": "loss", "mode": "min"},
        scheduler="none",
    )
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A user's working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "guess.py").write_text(LEARNER)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "numbers.py").write_text("def loss(x): return (x - 2) ** 2 + 1\n")
    return tmp_path


@pytest.mark.slow
def test_run_command_trains_custom_learner(here, ray_here):
    command = Path(sys.executable).parent / "tuner"
    done = subprocess.run([command, "run", "guess"], capture_output=True, text=True, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "3 trials: 3 completed"
    assert "Best trial 00001, epoch 2 of 2, completed\n  loss  0.5\n" in done.stdout
    assert "TensorBoard  " in done.stdout
    assert "new best loss" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    results = Results(here / "results" / "guess")
    assert results.document["spec"]["trainable"].endswith("guess:Guess")
    assert [t.values("loss") for t in results.trials.values()] == [
        [(1, 2), (2, 1)],
        [(1, 1), (2, 0.5)],
        [(1, 2), (2, 1)],
    ]
    again = call("resume", "guess", "--json")
    assert again.return_value == 0, again.stderr
    assert json.loads(again.stdout)["best"]["trial_id"] == "00001"
    assert "nothing is left to do" in again.stderr
