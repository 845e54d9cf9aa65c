"""Trainables of several ranks: an exact one, and one that goes wrong as its config says."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from sockets import listening, outside

from tuner.cluster import access
from tuner.trial import guard
from tuner.vision.image_classifier import ImageClassifier

WATCHDOG = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, ...) ran for"


EPOCHS = 2


def search_digits(searched, **resources):
    return searched(
        trainable="several_ranks:Listening",
        training={
            "model": "cnn",
            "dataset": "digits",
            "norm": "group",
            "dtype": "float64",
            "epochs": EPOCHS,
            "width": 8,
        },
        search={"space": {"lr": "choice([0.01, 0.03])", "batch_size": "choice([120])"}},
        scheduler="none",
        resources={"cpus": 1, **resources},
        num_samples=1,
    )


class Listening(ImageClassifier):
    """Counts the sockets on which it and all that Ray runs beside it listen."""

    def step(self):
        mark = os.environ[guard.MARK]
        folder = os.path.dirname(os.environ[access.TOKEN_PATH])
        pids = [os.getpid(), *guard.find_marked(mark, folder)]
        counts = {"listening": len(listening(pids)), "outside": len(outside(pids))}
        return {**super().step(), **counts}


class RankedLearner:
    """Goes wrong in epoch 2: rank 1, or rank 0, as the fault says.

    Reports the number of ranks that took part in a sum; writes each rank's pid to `pids`.
    """

    metrics = ("ranks", "threads")

    def __init__(self, config, constants, *, device, rank, world_size):
        self.fault = config["fault"]
        self.rank = rank
        self.epoch = 0
        with Path(constants["pids"]).open("a") as file:
            file.write(f"{os.getpid()}\n")

    def step(self):
        self.epoch += 1
        if self.rank == (self.fault != "first killed") and self.epoch == 2:
            self._misbehave()
        ranks = torch.ones(())
        dist.all_reduce(ranks)
        report = {"ranks": ranks.item(), "threads": torch.get_num_threads()}
        if self.epoch == 2 and self.fault == f"none, but rank {self.rank} says done":
            report["done"] = True
        return report

    def _misbehave(self):
        if self.fault in ("killed", "first killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "raises":
            raise ValueError("rank 1 has had enough")
        elif self.fault == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.fault == "is ended by nccl":
            print(WATCHDOG, flush=True)
            os.abort()

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
