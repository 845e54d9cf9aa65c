"""Trainables that write by relative paths, as scripts do that were written for one run."""

import json
import os
import time
from pathlib import Path

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
    tune.report(
        {"loss": abs(config["lr"] - 1), "same": float(same)}, checkpoint=checkpoint
    )


class Reads:
    """Looks for data.txt, which lies where the search was started, as its config says how."""

    def __init__(self, config, constants, *, device, rank, world_size):
        if config["how"] == "by start_dir":
            (start_dir() / "data.txt").read_text()
        elif config["how"] == "and fails":
            Path("data.txt").read_text()

    def step(self):
        return {"loss": 1.0}

    def state_dict(self):
        return {"epoch": 1}

    def load_state_dict(self, state):
        pass
