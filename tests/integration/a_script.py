"""A script: what it defines is of `__main__`, from where no worker can import it."""

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from ray import tune

import tuner
from tuner.cluster import connect as cluster


class Line:
    """A Learner."""

    metrics = ("loss",)

    def __init__(self, config, constants, *, device, rank, world_size):
        self.lr = config["lr"]
        self.epoch = 0

    def step(self):
        self.epoch += 1
        return {"loss": self.lr / self.epoch}

    def state_dict(self):
        return {"epoch": self.epoch, "model": {"lr": torch.tensor(self.lr)}}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]

    def test(self):
        return {"test_loss": self.lr}


def train(config, factor=1.0, data=None):
    """A function; it reports, and saves where it is, more slowly where its config says so."""
    first = 1
    if before := tune.get_checkpoint():
        first += json.loads(Path(before.path, "epoch.json").read_text())
    for epoch in range(first, 4):
        time.sleep(config.get("epoch_s", 0))
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "epoch.json").write_text(json.dumps(epoch))
            checkpoint = tune.Checkpoint.from_directory(folder)
            loss = factor * config["lr"] + (0 if data is None else sum(data))
            tune.report({"loss": loss, "first": first}, checkpoint=checkpoint)


class Steps(tune.Trainable):
    def setup(self, config, data=(0,)):
        self.data = data

    def step(self):
        return {"loss": self.config["lr"] + sum(self.data)}


def spec(name, trainable, **fields):
    return tuner.ExperimentSpec(
        name=name,
        trainable=trainable,
        search={"strategy": "grid", "space": {"lr": "grid_search([1.0, 2.0])"}},
        objective={"metric": "loss", "mode": "min"},
        scheduler={"max_t": 3, "grace_period": 3},
        max_concurrent=1,
        **fields,
    )


def losses(name, trainable):
    results = tuner.run_experiment(spec(name, trainable))
    return [trial.results[-1].metrics["loss"] for trial in results.trials.values()]


def run_all():
    from tuner.vision.export.evaluate import evaluate

    factor = 5.0
    data = [10.0, 20.0]
    with cluster.connect():
        output = {
            "function": losses("function", train),
            "closure": losses(
                "closure", lambda config: {"loss": factor * config["lr"]}
            ),
            "partial": losses("partial", partial(train, factor=2.0)),
            "parameters": losses("parameters", tune.with_parameters(train, data=data)),
            "class": losses("class", tune.with_parameters(Steps, data=data)),
            "learner": losses("learner", Line),
        }
        results = tuner.load_results("learner")
        output["confirmed"] = len(
            tuner.confirm(
                results, top=1, seeds=2, trainable=Line, address="auto"
            ).results.trials
        )
        output["tested"] = evaluate(results, trainable=Line)["test_loss"]
        output["exported"] = sorted(
            path.name for path in results.export("exported").iterdir()
        )
    print(json.dumps(output))


if __name__ == "__main__":
    if sys.argv[1] == "all":
        run_all()
    elif sys.argv[1] == "slow":
        slow = {"lr": "grid_search([1.0])", "epoch_s": 0.5}
        tuner.run_experiment(
            spec("slow", train).replace(search={"strategy": "grid", "space": slow})
        )
    else:
        results = tuner.resume_experiment("results/slow", trainable=train)
        (trial,) = results.trials.values()
        print(json.dumps([report.metrics["first"] for report in trial.results]))
