"""BOHB on the digits: many short trials in a wide space, where ASHA stops the bad ones early."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.bohb_search import DIGITS_CNN


def experiment() -> ExperimentSpec:
    """48 configs in two brackets: a third of them are first compared at the second rung."""
    return ExperimentSpec(
        training={"model": "cnn", "dataset": "digits", "label_smoothing": 0.1},
        search={"strategy": "bohb", "space": DIGITS_CNN},
        objective={"metric": "val_loss", "mode": "min"},
        scheduler={"max_t": 10, "grace_period": 1, "reduction_factor": 3},
        num_samples=48,
    )
