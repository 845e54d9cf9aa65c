"""A Learner of several ranks whose config says what rank 1, or rank 0, does wrong in epoch 2."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist

WATCHDOG = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, ...) ran for"


class RankedLearner:
    """Reports the number of ranks that took part in a sum; writes each rank's pid to `pids`."""

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
