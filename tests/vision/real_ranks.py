"""Ranks in real processes over gloo, with the tiny data set, and a comparison of their training.

They are forked; see forked.py.
"""

import forked
import pytest
import torch
import torch.multiprocessing as mp
from tiny_images import INFO
from torch import distributed as dist

from tuner.vision.catalog import DATASETS

METRICS = ("train_loss", "val_loss", "val_accuracy")


def run(cases, folder, *, world_size=2):
    """What each of the functions `cases` returns, given the rank: a dict by name for each rank."""
    forked.prepare()
    arguments = (world_size, cases, str(folder))
    mp.start_processes(_run_rank, args=arguments, nprocs=world_size, start_method=forked.METHOD)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(world_size)]


def _run_rank(rank, world_size, cases, folder):
    torch.set_num_threads(1)
    DATASETS["tiny"] = INFO
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world_size
    )
    torch.save({name: case(rank) for name, case in cases.items()}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def trained(learner, epochs=2):
    """The reports of some epochs, and the state and the test metrics after them."""
    reports = [learner.step() for _ in range(epochs)]
    return {"reports": reports, "state": learner.state_dict(), "test": learner.test()}


def assert_equal(result, expected, *, metrics=METRICS, rel=1e-10, most=1e-12):
    """Both have trained alike; `most` is the largest difference of a weight."""
    for got, expected_report in zip(result["reports"], expected["reports"], strict=True):
        for name in metrics:
            assert got[name] == pytest.approx(expected_report[name], rel=rel), name
    assert result["test"] == pytest.approx(expected["test"], rel=rel)
    for model in {"model", "raw_model"} & expected["state"].keys():
        for key, value in expected["state"][model].items():
            difference = result["state"][model][key].double() - value.double()
            assert difference.abs().max() <= most, key
