"""A plain Ray Tune function, run as it is: the search journals what it reports."""

from __future__ import annotations

from typing import Any

from ray import tune
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

from tuner import ExperimentSpec


def train(config: dict[str, Any]) -> None:
    """A linear classifier of the digits, one pass over the images a report."""
    images, labels = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(
        images / 16, labels, random_state=0
    )
    model = SGDClassifier(
        learning_rate="constant",
        eta0=config["lr"],
        alpha=config["alpha"],
        random_state=0,
    )
    for _ in range(10):
        model.partial_fit(x_train, y_train, classes=range(10))
        tune.report({"val_accuracy": model.score(x_val, y_val)})


def experiment() -> ExperimentSpec:
    """12 random configs under ASHA; an epoch is one report."""
    return ExperimentSpec(
        trainable=train,
        search={
            "space": {"lr": "loguniform(1e-3, 10)", "alpha": "loguniform(1e-6, 1e-2)"}
        },
        objective={"metric": "val_accuracy", "mode": "max"},
        scheduler={"max_t": 10, "reduction_factor": 3},
        num_samples=12,
    )
