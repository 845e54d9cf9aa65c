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
