"""A Learner and a function whose loss depends on the seed as well as on the config."""

from random import Random

from ray import tune


def noisy(x, seed, epoch):
    return (x - 2) ** 2 + 1 + Random(seed).random() / 10 + 1 / epoch


class Noisy:
    metrics = ("loss", "seed")

    def __init__(self, config, constants, *, device, rank, world_size):
        self.x = config["x"]
        self.seed = constants["seed"]
        self.epoch = 0
        assert set(config) == {"x"}

    def step(self):
        self.epoch += 1
        return {"loss": noisy(self.x, self.seed, self.epoch), "seed": self.seed}

    def test(self):
        return {"test_loss": noisy(self.x, self.seed, self.epoch) + 100}

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


def function(config):
    for epoch in range(1, 9):
        tune.report({"loss": noisy(config["x"], config.get("seed", 0), epoch)})
