"""HyperOpt on the digits: a wide space, with the optimizer and its schedule among the choices."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.hyperopt_search import DIGITS_CNN


def experiment() -> ExperimentSpec:
    """40 configs under ASHA; until 10 trials have ended they are random."""
    return ExperimentSpec(
        training={
            "model": "cnn",
            "dataset": "digits",
            "width": 32,
            "label_smoothing": 0.1,
        },
        search={"strategy": "hyperopt", "space": DIGITS_CNN},
        objective={"metric": "val_loss", "mode": "min"},
        scheduler={"max_t": 10, "grace_period": 1, "reduction_factor": 3},
        num_samples=40,
    )
