"""Bayesian optimisation on the digits: few trials, each of which is chosen with care."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.bayesopt_search import DIGITS_CNN


def experiment() -> ExperimentSpec:
    """16 configs, two at a time, so that most are chosen with the results of all others known."""
    return ExperimentSpec(
        training={"model": "cnn", "dataset": "digits", "width": 32},
        search={"strategy": "bayesopt", "space": DIGITS_CNN},
        objective={"metric": "val_loss", "mode": "min"},
        scheduler={"max_t": 10},
        max_concurrent=2,
        num_samples=16,
    )
