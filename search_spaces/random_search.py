"""Spaces for random search, and for every strategy that takes continuous domains.

A domain is one of Ray Tune's calls as text; Ray's own objects (`tune.loguniform(1e-4, 1e-1)`) mean
the same. Text keeps Ray out of the start-up, and is what YAML and the command line take too.
"""

from __future__ import annotations

# The small CNN on 8x8 digits. lr and weight_decay are wide enough to hold the best inside.
DIGITS_CNN = {
    "lr": "loguniform(1e-3, 3)",
    "momentum": "uniform(0.5, 0.99)",
    "weight_decay": "loguniform(1e-6, 1e-1)",
    "batch_size": "choice([16, 32, 64, 128])",
}

# The search of the PyTorch tutorial on tuning: the two-conv Net on CIFAR-10
CIFAR10_NET = {
    "l1": "choice([4, 8, 16, 32, 64, 128, 256])",
    "l2": "choice([4, 8, 16, 32, 64, 128, 256])",
    "lr": "loguniform(1e-4, 1e-1)",
    "batch_size": "choice([2, 4, 8, 16])",
}

CIFAR10_RESNET = {
    "lr": "loguniform(1e-2, 1)",
    "weight_decay": "loguniform(1e-5, 1e-2)",
    "label_smoothing": "choice([0.0, 0.1, 0.2])",
    "batch_size": "choice([128, 256, 512])",
}
