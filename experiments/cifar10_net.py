"""The search of the PyTorch tutorial on tuning: l1, l2, lr and batch_size of Net on CIFAR-10."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.random_search import CIFAR10_NET


def experiment() -> ExperimentSpec:
    """10 random configs under ASHA with 2 CPUs each; `--gpus 1` (or a share) puts them on GPUs."""
    return ExperimentSpec(
        training={"model": "net", "dataset": "cifar10", "lr_schedule": "constant"},
        search={"strategy": "random", "space": CIFAR10_NET},
        objective={"metric": "val_loss", "mode": "min"},
        scheduler={"max_t": 10, "grace_period": 1, "reduction_factor": 2},
        resources={"cpus": 2},
        num_samples=10,
    )
