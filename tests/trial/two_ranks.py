"""Two real processes over gloo, with the tiny data set."""

import torch
import torch.multiprocessing as mp
from tiny_images import INFO
from torch import distributed as dist

from tuner.classifier.catalog import DATASETS


def run(cases, folder):
    """What each of the functions `cases` returns, given the rank: a dict by name for each rank."""
    mp.spawn(_run_rank, args=(cases, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def _run_rank(rank, cases, folder):
    torch.set_num_threads(1)
    DATASETS["tiny"] = INFO
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    torch.save({name: case(rank) for name, case in cases.items()}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
