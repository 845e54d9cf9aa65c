"""Sections of a spec: each refuses by itself what cannot work."""

import json

import pytest

from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schedulers import SCHEDULERS
from tuner.spec.sections import SECTIONS, Checkpoints, Objective, Resources
from tuner.spec.settings import build_schema, parse
from tuner.spec.strategies import SEARCHERS


@pytest.mark.parametrize(
    ("section", "raw"),
    [
        (Objective, {"mode": "best"}),
        (Objective, {"limits": ["size <"]}),
        (Objective, {"limits": "1 < 2"}),
        (Resources, {"gpus": 0.5, "workers": 2}),
        (Resources, {"gpus": 0.5, "split": 2}),
        (Resources, {"split": 3, "workers": 2}),
        (Resources, {"cpus": 1e-320}),
        (Resources, {"gpus": 1e-5}),
        (Resources, {"cpus": float("inf")}),
        (Checkpoints, {"every_s": -1}),
    ],
)
def test_section_invalid_value_is_refused(snapshot, section, raw):
    _, faults = parse(section, raw)
    snapshot("\n".join(map(str, faults)))


@pytest.mark.parametrize(
    ("raw", "mode"),
    [
        ({}, "min"),
        ({"metric": "val_accuracy"}, "max"),
        ({"metric": "val_macro_f1"}, "max"),
        ({"metric": "top1_error"}, "min"),
        ({"metric": "accuracy_loss"}, "min"),
        ({"metric": "epoch_s"}, "min"),
        ({"metric": "verr"}, "min"),
        ({"metric": "val_accuracy", "mode": "min"}, "min"),
        ({"mode": "max"}, "max"),
    ],
)
def test_objective_mode_follows_metric_name(raw, mode):
    assert Objective(**raw).mode == mode


def test_objective_allows_reports_that_keep_every_limit():
    objective = Objective(limits=("size <= 2 * width", "5 < ms <= 20"))
    assert objective.limited == ("size", "width", "ms")
    assert objective.is_within_limits({"size": 2, "width": 1, "ms": 20, "val_loss": 1})
    assert not objective.is_within_limits({"size": 3, "width": 1, "ms": 20})
    assert not objective.is_within_limits({"size": 2, "width": 1})
    assert Objective().is_within_limits({})
    named = Objective(limits=("val.ms <= 20", "value('val/size') <= 2"))
    assert named.required == ("val.ms", "val/size")
    assert named.is_within_limits({"val.ms": 20, "val/size": 2})
    assert not named.is_within_limits({"val.ms": 20, "val/size": 3})


def test_schema_of_describes_every_key():
    models = [
        *SEARCHERS.load_shipped_settings().values(),
        *SCHEDULERS.load_shipped_settings().values(),
        *SECTIONS.values(),
    ]
    undescribed = {
        f"{model.__name__}.{name}"
        for model in [ExperimentSpec, *models]
        for name, field in build_schema(model)["properties"].items()
        if not field["description"] and "enum" not in json.dumps(field)
    }
    described_by_model = {"search", "scheduler", *SECTIONS.keys()} - {
        "confirms",
        "refits",
    }
    assert undescribed == {f"ExperimentSpec.{name}" for name in described_by_model}
