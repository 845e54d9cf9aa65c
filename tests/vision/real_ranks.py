"""Ranks in real processes over gloo, with the tiny data set, and a comparison of their training.

They are forked; see forked.py.
"""

import gc
import multiprocessing
import traceback
from multiprocessing.connection import wait

import forked
import pytest
import torch
from tiny_images import INFO
from torch import distributed as dist

from tuner.vision.catalog import DATASETS

WORLD_SIZE = 2
METRICS = ("train_loss", "val_loss", "val_accuracy")


class Group:
    """Two ranks, which run one case after another; `folder` is for their files."""

    def __init__(self, folder):
        self._folder = folder
        self._started = 0
        self._start()

    def _start(self):
        forked.prepare()
        context = multiprocessing.get_context(forked.METHOD)
        self._started += 1
        rendezvous = f"file://{self._folder}/rendezvous{self._started}"
        self._pipes = []
        self._processes = []
        for rank in range(WORLD_SIZE):
            ours, theirs = context.Pipe()
            arguments = (theirs, rank, rendezvous, self._folder)
            self._pipes.append(ours)
            self._processes.append(
                context.Process(target=_serve, args=arguments, daemon=True)
            )
            self._processes[-1].start()
            theirs.close()

    def run(self, cases):
        """What each of the functions `cases` returns, given the rank: a dict for each rank."""
        for pipe in self._pipes:
            pipe.send(cases)
        waiting = [*self._pipes]
        while waiting:
            for pipe in wait(waiting):
                if error := pipe.recv():  # the other rank would wait for this one
                    self.close()
                    self._start()
                    raise AssertionError(error)
                waiting.remove(pipe)
        files = [self._folder / f"{rank}.pt" for rank in range(WORLD_SIZE)]
        return [torch.load(file, weights_only=True) for file in files]

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()


def _serve(pipe, rank, rendezvous, folder):
    torch.set_num_threads(1)
    # So that a case that runs out of memory need not look through what is imported
    gc.freeze()
    DATASETS["tiny"] = INFO
    dist.init_process_group(
        "gloo", init_method=rendezvous, rank=rank, world_size=WORLD_SIZE
    )
    while True:
        cases = pipe.recv()
        try:
            torch.save(
                {name: case(rank) for name, case in cases.items()},
                folder / f"{rank}.pt",
            )
            pipe.send(None)
        except Exception:
            pipe.send(traceback.format_exc())


def trained(learner, epochs=2):
    """The reports of some epochs, and the state and the test metrics after them."""
    reports = [learner.step() for _ in range(epochs)]
    return {"reports": reports, "state": learner.state_dict(), "test": learner.test()}


def compare_results(result, expected, *, metrics=METRICS, rel=1e-10, most=1e-12):
    """Both have trained alike; `most` is the largest difference of a weight."""
    for got, expected_report in zip(
        result["reports"], expected["reports"], strict=True
    ):
        for name in metrics:
            assert got[name] == pytest.approx(expected_report[name], rel=rel), name
    assert result["test"] == pytest.approx(expected["test"], rel=rel)
    for model in {"model", "raw_model"} & expected["state"].keys():
        for key, value in expected["state"][model].items():
            difference = result["state"][model][key].double() - value.double()
            assert difference.abs().max() <= most, key
