"""What decides is reported, and pieces of recipes can be searched: without Ray or torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tuner.errors import SpecError
from tuner.planning.validation import Machine, validate
from tuner.vision.catalog import DATASETS

MACHINE = Machine(cpus=4)
DIGITS: dict[str, Any] = {
    "training": {"model": "cnn", "dataset": "digits"},
    "search": {"space": {"lr": "loguniform(1e-3, 1)"}},
    "num_samples": 4,
}


def faults(**changes: Any) -> str:
    with pytest.raises(SpecError) as refused:
        validate({**DIGITS, **changes}, machine=MACHINE)
    return "\n".join(map(str, refused.value.faults))


@pytest.mark.parametrize("named", [[], ["top5_accuracy"], "top5_accuracy", ["macro_f1"]])
def test_the_classifier_reports_the_metric_that_decides(named: Any) -> None:
    training = {**DIGITS["training"], **({"metrics": named} if named else {})}
    raw = {**DIGITS, "training": training, "objective": {"metric": "val_macro_f1", "mode": "max"}}
    spec = validate(raw, machine=MACHINE)
    listed = [named] if isinstance(named, str) else named
    assert spec.constants["metrics"] == list(dict.fromkeys([*listed, "macro_f1"]))
    again = validate(spec.model_dump(mode="json"), machine=MACHINE)
    assert again == spec


def test_a_metric_that_decides_nothing_is_not_reported() -> None:
    assert "metrics" not in validate(DIGITS, machine=MACHINE).constants


def test_a_metric_that_decides_and_cannot_be_is_the_objectives_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    five = replace(DATASETS["digits"], classes=("a", "b", "c", "d", "e"))
    monkeypatch.setitem(DATASETS, "digits", five)
    told = "top5_accuracy needs more than 5 classes, and dataset 'digits' has 5"
    objective = {"metric": "val_top5_accuracy", "mode": "max"}
    assert faults(objective=objective) == f"objective.metric: {told}"
    named = {**DIGITS["training"], "metrics": ["top5_accuracy"]}
    assert faults(training=named) == f"training.metrics: {told}"


def test_a_metric_of_no_name_is_refused_with_all_that_there_are() -> None:
    told = faults(objective={"metric": "val_f1"})
    assert "objective.metric: unknown metric 'val_f1'" in told
    assert {"val_macro_f1", "val_loss"} <= {*told.rpartition("available: ")[2].split(", ")}


def test_pieces_of_a_recipe_can_be_searched() -> None:
    space = {
        "lr": "loguniform(1e-3, 1)",
        "lr_schedule": "choice(['cosine', 'step', 'one_cycle', 'triangular', 'constant'])",
        "warmup_epochs": "uniform(0, 3)",
        "decay_norms_and_biases": "choice([True, False])",
        "clip_grad_norm": "choice([0, 1, 5])",
        "ema_decay": "choice([0, 0.99, 0.999])",
        "mixup": "uniform(0, 0.4)",
        "cutmix": "choice([0, 1])",
        "class_weights": "choice([None, 'balanced'])",
        "label_smoothing": "uniform(0, 0.2)",
    }
    search = {"strategy": "random", "space": space}
    assert validate({**DIGITS, "search": search}, machine=MACHINE).trials == 4
    too_long = {**search, "space": {**space, "warmup_epochs": "uniform(0, 3000)"}}
    assert "search.space.warmup_epochs: must be below `epochs`" in faults(search=too_long)
    steps = {**space, "lr_schedule": "step", "lr_steps": "choice([[1, 2], [3]])"}
    validate({**DIGITS, "search": {**search, "space": steps}}, machine=MACHINE)
