"""Trainables that write by relative paths, as scripts do that were written for one run."""

import json
import os
import time
from pathlib import Path

import torch
from ray import tune

from tuner import start_dir, trial_dir


def meet(config):
    """Return when as many trials have come here as the spec runs side by side."""
    gate = Path(config["gate"])
    (gate / str(config["lr"])).touch()
    while len(list(gate.iterdir())) < config["trials"]:
        time.sleep(0.02)


def keeps_its_weights(config):
    """Writes ck/ and hands it over once every other trial has written ck/ as well."""
    os.makedirs("ck", exist_ok=True)
    Path("ck/weights.json").write_text(json.dumps(config["lr"]))
    meet(config)
    same = os.getcwd() == str(trial_dir()) == tune.get_context().get_trial_dir()
    checkpoint = tune.Checkpoint.from_directory("ck")
    tune.report({"loss": abs(config["lr"] - 1), "same": float(same)}, checkpoint=checkpoint)


class LoadsItsBest:
    """As `Trainer("out", load_best_model_at_end=True)`: writes checkpoints, and loads one."""

    def __init__(self, config, constants, *, device, rank, world_size):
        self.config, self.epoch = config, 0

    def step(self):
        self.epoch += 1
        out = Path("out", f"checkpoint-{self.epoch}")
        out.mkdir(parents=True)
        (out / "lr.json").write_text(json.dumps(self.config["lr"]))
        if self.epoch == 1:
            meet(self.config)
        loaded = json.loads(Path("out/checkpoint-1/lr.json").read_text())
        return {"loss": self.config["lr"], "wrong": abs(loaded - self.config["lr"])}

    def state_dict(self):
        return {"model": {"lr": torch.tensor(self.config["lr"])}, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


class Reads:
    """Looks for data.txt, which lies where the search was started, as its config says how."""

    def __init__(self, config, constants, *, device, rank, world_size):
        if config["how"] == "by start_dir":
            (start_dir() / "data.txt").read_text()
        elif config["how"] == "and fails":
            Path("data.txt").read_text()
        elif config["how"] == "or does without":
            try:
                Path("data.txt").read_text()
            except OSError:
                self.text = ""

    def step(self):
        return {"loss": 1.0}

    def state_dict(self):
        return {"epoch": 1}

    def load_state_dict(self, state):
        pass
