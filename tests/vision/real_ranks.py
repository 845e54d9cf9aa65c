"""Ranks in real processes over gloo, with the tiny data set.

They are forked; see forked.py.
"""

import forked
import torch
import torch.multiprocessing as mp
from tiny_images import INFO
from torch import distributed as dist

from tuner.vision.catalog import DATASETS


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
