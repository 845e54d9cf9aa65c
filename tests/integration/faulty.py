"""Trainables whose config says how to misbehave: `does` names one of the functions below."""

import ctypes
import faulthandler
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from ray import tune

OUTPUT = "this is what the trial said"


def raises():
    raise ValueError("wrong shape:\n  3 x 32")


def exits_in_peace():
    sys.exit(0)


def dies():
    os._exit(7)


def hangs():
    time.sleep(3600)


def is_stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def calls_off():
    """It hangs, and nothing in its process ends it."""
    faulthandler.cancel_dump_traceback_later()
    hangs()


def segfaults():
    ctypes.string_at(0)


def memory():
    raise MemoryError


ACTS = {
    function.__name__: function
    for function in (
        raises,
        exits_in_peace,
        dies,
        segfaults,
        hangs,
        memory,
        is_stopped,
        calls_off,
    )
}

REPORTS = {
    "reports_nan": {"val_loss": float("nan")},
    "reports_text": {"val_loss": "small"},
}


class Learner:
    """Three good epochs by default; the fault comes in the second one, or at once."""

    def __init__(self, config, constants, *, device, rank, world_size):
        self.does = config["does"]
        self.epoch = 0
        if config.get("when") == "at the start":
            print(OUTPUT, self.does, self.epoch, flush=True)
            ACTS[self.does]()

    def step(self):
        self.epoch += 1
        print(OUTPUT, self.does, self.epoch)
        if self.epoch == 2 and self.does in ACTS:
            ACTS[self.does]()
        if self.epoch == 2 and self.does in REPORTS:
            return REPORTS[self.does]
        if self.does == "tells_its_process":
            return {"val_loss": 1 / self.epoch, **_process()}
        odd = {"odd": float("nan"), "name": "x"}
        return {"val_loss": 1 / self.epoch, "pid": os.getpid(), **odd}

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]

    def __del__(self):
        if self.does == "hangs_when_dropped":
            hangs()


def stubborn(config):
    """A function that goes on after its trial, and one that takes long to end, as `does` says."""
    if config["does"] == "takes_long_to_end":
        try:
            tune.report({"val_loss": 1.0, "pid": os.getpid()})
            tune.report({"val_loss": 1.0})
        finally:
            time.sleep(3600)
    for epoch in range(1, 10):
        try:
            tune.report({"val_loss": 1 / epoch, "pid": os.getpid()})
        except:  # noqa: E722 - as in a user's code
            hangs()


def train(config):
    """A plain function: three reports by default."""
    does = config["does"]
    print(OUTPUT, does)
    if does in ACTS and config.get("when") == "at the start":
        ACTS[does]()
    if does == "returns_at_once":
        return None
    if does == "returns_a_mapping":
        return {"val_loss": 0.25}
    first = 1 + _restored()
    for epoch in range(first, 4):
        if epoch == 2 and does == "returns_early":
            return None
        if epoch == 2 and does in ACTS:
            ACTS[does]()
        if epoch == 2 and does in REPORTS:
            tune.report(REPORTS[does])
        elif does == "saves":
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "epoch.txt").write_text(str(epoch))
                report = {"val_loss": 1 / epoch, "first": first}
                tune.report(report, checkpoint=tune.Checkpoint.from_directory(folder))
        elif does == "tells_its_process":
            tune.report({"val_loss": 1 / epoch, **_process()})
        else:
            tune.report({"val_loss": 1 / epoch})
    return None


def _restored():
    checkpoint = tune.get_checkpoint()
    return int(Path(checkpoint.path, "epoch.txt").read_text()) if checkpoint else 0


def _process():
    import torch  # takes longer than all else here

    return {"pid": os.getpid(), "threads": torch.get_num_threads(), "nice": os.nice(0)}


class Leaky(Learner):
    """Takes more and more memory in its second epoch, where `does` says so; others take longer."""

    def step(self):
        kept = []
        if self.epoch == 1 and self.does == "leaks":
            while len(kept) < 100:  # 6 GiB: it is ended before
                kept.append(b"x" * (64 << 20))
                time.sleep(0.02)
        time.sleep(1)
        return super().step()


class Endless(Learner):
    """Reports until it is ended."""

    def step(self):
        time.sleep(0.1)
        self.epoch += 1
        return {"val_loss": 1 / self.epoch}
