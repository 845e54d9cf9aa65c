"""ResNet-20 on CIFAR-10 with crops and flips; `training.model=resnet18` takes the larger one."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.random_search import CIFAR10_RESNET


def experiment() -> ExperimentSpec:
    """32 random configs under ASHA; made for a GPU: `--gpus 0.25` runs four trials on each."""
    return ExperimentSpec(
        training={
            "model": "resnet20",
            "dataset": "cifar10",
            "crop_padding": 4,
            "flip": True,
        },
        search={"strategy": "random", "space": CIFAR10_RESNET},
        objective={"metric": "val_accuracy", "mode": "max"},
        scheduler={"max_t": 30, "grace_period": 2, "reduction_factor": 3},
        resources={"cpus": 2},
        num_samples=32,
    )
