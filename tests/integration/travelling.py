"""A Learner that is sent to the nodes of a cluster, and notes where its ranks train."""

import time
from pathlib import Path

import ray
import torch
from torch import distributed


class Travelling:
    """After epoch 2 it waits until the file `open` is in its folder."""

    metrics = ("loss",)

    def __init__(self, config, constants, *, device, rank, world_size):
        self.folder = Path(constants["folder"])
        self.x = config["x"]
        self.rank = rank
        self.ranks = world_size
        self.epoch = 0
        self.note("built")

    def note(self, what):
        with (self.folder / "notes").open("a") as file:
            file.write(
                f"{what} {ray.util.get_node_ip_address()} {self.rank} {self.epoch}\n"
            )

    def step(self):
        while self.epoch >= 2 and not (self.folder / "open").exists():
            time.sleep(0.05)
        self.epoch += 1
        count = torch.ones(1)
        if self.ranks > 1:
            distributed.all_reduce(count)
        return {"loss": self.x / self.epoch, "ranks": count.item()}

    def state_dict(self):
        return {"epoch": torch.tensor(self.epoch)}

    def load_state_dict(self, state):
        self.epoch = int(state["epoch"])
        self.note("restored")
