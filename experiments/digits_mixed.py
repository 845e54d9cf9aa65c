"""The mixed search on the digits: Bayesian optimisation and Parzen estimators in turns."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.bayesopt_search import DIGITS_CNN


def experiment() -> ExperimentSpec:
    """32 configs, each of at most 10 epochs; ASHA stops poor ones from the first epoch on."""
    return ExperimentSpec(
        training={"model": "cnn", "dataset": "digits", "width": 32},
        search={"strategy": "mixed", "space": DIGITS_CNN},
        objective={"metric": "val_loss", "mode": "min"},
        scheduler={"max_t": 10, "grace_period": 1, "reduction_factor": 3},
        num_samples=32,
    )
