"""SpeedNet on CIFAR-10 in ten fast epochs; made for a GPU, where half precision is chosen."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.random_search import CIFAR10_SPEEDNET


def experiment() -> ExperimentSpec:
    """40 random configs under ASHA; `--gpus 0.25` runs four trials on each GPU."""
    return ExperimentSpec(
        training={
            "model": "speednet",
            "dataset": "cifar10",
            "crop_padding": 2,
            "flip": True,
            "alternating_flip": True,
            "test_time_flip": True,
            "optimizer": "sgdw",
            "lr_schedule": "triangular",
        },
        search={"strategy": "random", "space": CIFAR10_SPEEDNET},
        objective={"metric": "val_accuracy", "mode": "max"},
        scheduler={"max_t": 10, "grace_period": 2, "reduction_factor": 3},
        resources={"cpus": 1},
        num_samples=40,
    )
