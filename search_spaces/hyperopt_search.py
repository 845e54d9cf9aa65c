"""Spaces for HyperOpt's tree-structured Parzen estimators, which take branches as they are.

Use it for spaces with branches and many choices. Numbers, choices and their nesting are Ray's
domains as text; a choice of mappings is a branch, whose hyperparameters only its trials have.
"""

from __future__ import annotations

# Wider than what random search can afford: it learns which optimizer and schedule to leave alone
DIGITS_CNN = {
    "lr": "loguniform(1e-4, 3)",
    "momentum": "uniform(0.5, 0.99)",
    "weight_decay": "loguniform(1e-6, 1e-1)",
    "batch_size": "choice([16, 32, 64, 128])",
    "lr_schedule": "choice(['constant', 'cosine', 'one_cycle'])",
    "optimizer": "choice(['sgd', 'adamw'])",
}
