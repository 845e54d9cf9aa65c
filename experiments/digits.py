"""A small CNN on scikit-learn's 1,797 handwritten digits: well under a minute on 4 cores."""

from __future__ import annotations

from tuner import ExperimentSpec
from tuner.shipped.search_spaces.random_search import DIGITS_CNN


def experiment() -> ExperimentSpec:
    """24 configs under ASHA, at most 10 epochs each; nothing is downloaded.

    So many are searched by `mixed`; with `--num-samples` below 12 they are random.
    """
    return ExperimentSpec(
        training={
            "model": "cnn",
            "dataset": "digits",
            "width": 32,
            "label_smoothing": 0.1,
        },
        search={"space": DIGITS_CNN},
        objective={"metric": "val_loss", "mode": "min"},
        scheduler={"max_t": 10, "grace_period": 1, "reduction_factor": 3},
        num_samples=24,
    )
