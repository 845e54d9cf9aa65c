"""SpeedNet on CIFAR-10 in ten fast epochs; made for a GPU, where half precision is chosen.

The recipe is that of airbench94 (Jordan 2024), with `lr` and `weight_decay` for 1,024 images:
lr=10, momentum=0.85, weight_decay=0.0133, norm_bias_lr=64, label_smoothing=0.2, batch_size=1024.
"""

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
            "crop_fill": "reflect",
            "flip": True,
            "alternating_flip": True,
            "augment_at_once": True,
            "last_batch": "drop",
            "test_time_flip": True,
            "test_time_shift": 1,
            "optimizer": "sgdw",
            "decoupled": True,
            "lr_schedule": "triangular",
            "train_norm_scales": False,
            "norm_momentum": 0.4,
            "lookahead_steps": 5,
            "lookahead_decay": 0.774,
            "lookahead_power": 3,
        },
        search={"strategy": "random", "space": CIFAR10_SPEEDNET},
        objective={"metric": "val_accuracy", "mode": "max"},
        scheduler={"max_t": 10, "grace_period": 2, "reduction_factor": 3},
        resources={"cpus": 1},
        num_samples=40,
    )
