"""Spaces for grid search: every value is written out, so the number of trials is plain to see.

A grid over continuous domains needs no space of its own: `--search grid` spaces `search.points`
values over each domain of any space. This is for the finer grid around what random search found.
"""

from __future__ import annotations

# 3 * 3 * 2 = 18 trials around a good region of random search
DIGITS_CNN = {
    "lr": "grid_search([0.1, 0.3, 1.0])",
    "weight_decay": "grid_search([1e-4, 1e-3, 1e-2])",
    "batch_size": "grid_search([32, 64])",
}

# 3 * 3 * 3 * 2 = 54 trials
CIFAR10_NET = {
    "l1": "grid_search([64, 128, 256])",
    "l2": "grid_search([32, 64, 128])",
    "lr": "grid_search([0.001, 0.003, 0.01])",
    "batch_size": "grid_search([8, 16])",
}

# 3 * 3 * 2 = 18 trials
CIFAR10_RESNET = {
    "lr": "grid_search([0.05, 0.1, 0.2])",
    "weight_decay": "grid_search([1e-4, 5e-4, 2e-3])",
    "batch_size": "grid_search([128, 256])",
}

# 3 * 3 * 2 = 18 trials
CIFAR10_SPEEDNET = {
    "lr": "grid_search([0.8, 1.5, 3.0])",
    "weight_decay": "grid_search([1e-3, 2e-3, 4e-3])",
    "label_smoothing": "grid_search([0.1, 0.2])",
}
