"""Spaces for BOHB: wide ones, since early stopping makes a bad config cheap.

Use it with ASHA and many short trials. By itself it runs two brackets, so that a config that starts
slowly has its chance: two thirds of the trials are first compared at the first rung, the others at
the second (`scheduler.brackets`).
"""

from __future__ import annotations

DIGITS_CNN = {
    "lr": "loguniform(1e-4, 10)",
    "momentum": "uniform(0, 0.99)",
    "weight_decay": "loguniform(1e-7, 0.5)",
    "batch_size": "choice([16, 32, 64, 128])",
    "width": "choice([8, 16, 32])",
}
