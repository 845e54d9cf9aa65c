"""Spaces for Bayesian optimisation: few hyperparameters, most of them numbers.

Use it where trials are dear and at most about ten hyperparameters matter. Numbers on the right
scale help it most: a learning rate is log-uniform. A choice of three or more numbers in order, as
of batch sizes, is taken as ordered.
"""

from __future__ import annotations

DIGITS_CNN = {
    "lr": "loguniform(1e-3, 3)",
    "momentum": "uniform(0.5, 0.99)",
    "weight_decay": "loguniform(1e-6, 1e-1)",
    "label_smoothing": "uniform(0, 0.2)",
    "batch_size": "choice([16, 32, 64, 128])",
}
