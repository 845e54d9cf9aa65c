"""Trainables that take their time and save where they are, as a Learner and as a function."""

import tempfile
import time
from pathlib import Path

import torch
from ray import tune

EPOCH_S = 0.3


class Slow:
    """Reports the epoch that its state says, and how many epochs this object has trained.

    After its second epoch it waits, at most for a minute, for the file `gate`, if there is one.
    """

    metrics = ("loss", "counted", "trained")

    def __init__(self, config, constants, *, device, rank, world_size):
        self.x = config["x"]
        self.counted = 0
        self.trained = 0
        self.gate = Path(constants.get("gate", "."))  # by default a gate that is open

    def step(self):
        time.sleep(EPOCH_S)
        deadline = time.monotonic() + 60
        while (
            self.counted >= 2 and not self.gate.exists() and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        self.counted += 1
        self.trained += 1
        print("epoch", self.counted)
        return {
            "loss": self.x / self.counted,
            "counted": self.counted,
            "trained": self.trained,
        }

    def state_dict(self):
        return {"counted": torch.tensor(self.counted)}

    def load_state_dict(self, state):
        self.counted = int(state["counted"])


class Passing:
    """Is best in its 4th epoch; its state is what trains, and no copy."""

    metrics = ("loss",)

    def __init__(self, config, constants, *, device, rank, world_size):
        self.state = {"epochs": torch.zeros(1000)}

    def step(self):
        self.state["epochs"] += 1
        return {"loss": abs(float(self.state["epochs"][0]) - 4)}

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state["epochs"].copy_(state["epochs"])


def files(config):
    """The same as a function: its checkpoint is a folder with a folder in it."""
    counted = 0
    trained = 0
    if before := tune.get_checkpoint():
        counted = int((Path(before.path) / "inner/counted").read_text())
    while counted < 5:
        time.sleep(EPOCH_S)
        counted = counted + 1
        trained = trained + 1
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "inner").mkdir()
            (Path(folder) / "inner/counted").write_text(str(counted))
            tune.report(
                {"loss": config["x"] / counted, "counted": counted, "trained": trained},
                checkpoint=tune.Checkpoint.from_directory(folder),
            )
