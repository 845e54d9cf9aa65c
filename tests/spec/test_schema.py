"""The JSON schema of a spec: what is valid by it is what there is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuner.experiment.resolve import load_experiment, names
from tuner.settings import parse
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schema import (
    SECTIONS,
    schedulers,
    schema_of,
    spec_schema,
    strategies,
    with_hints,
)
from tuner.vision.settings import ClassifierSettings

jsonschema = pytest.importorskip("jsonschema")  # Ray Tune needs it
GOOD: dict[str, Any] = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 3}


def faults(raw: dict[str, Any]) -> list[str]:
    return [
        error.message for error in jsonschema.Draft202012Validator(spec_schema()).iter_errors(raw)
    ]


def test_spec_schema_is_valid_json_schema() -> None:
    schema = json.loads(json.dumps(spec_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) == set(ExperimentSpec.model_fields)


@pytest.mark.parametrize("name", names(__import__("pathlib").Path("/")))
def test_spec_schema_accepts_shipped_experiments(name: str) -> None:
    raw = load_experiment(name).raw
    assert not faults(raw)
    assert not faults(ExperimentSpec.model_validate(raw).model_dump(mode="json"))


@pytest.mark.parametrize(
    "change",
    [
        {"scheduler": "none"},
        {"scheduler": None},
        {"scheduler": {"name": "my.scheduler", "anything": 1}},
        {"search": {"strategy": "my_package.my_searcher", "space": {"lr": 1}, "first": 0.5}},
        {"search": {**GOOD["search"], "strategy": "hyperopt", "gamma": 0.2}},
        {"log": "wandb"},
        {"training": {"whatever": [1, {"a": None}]}},
    ],
)
def test_spec_schema_accepts_valid_specs(change: dict[str, Any]) -> None:
    assert not faults({**GOOD, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 3},
        {"num_samples": 0},
        {"objective": {"mode": "least"}},
        {"search": {**GOOD["search"], "points": 3, "strategy": "random"}},
        {"search": {"strategy": "hyperopt"}},
        {"scheduler": {"name": "asha", "max_t": 0}},
        {"scheduler": "hyperband"},
        {"training": {"lr": -1}},
    ],
)
def test_spec_schema_rejects_invalid_specs(change: dict[str, Any]) -> None:
    assert faults({**GOOD, **change})


def test_spec_schema_describes_every_key() -> None:
    models = [
        *strategies().values(),
        *schedulers().values(),
        *SECTIONS.values(),
        ClassifierSettings,
    ]
    silent = {
        f"{model.__name__}.{name}"
        for model in [ExperimentSpec, *models]
        for name, found in schema_of(model)["properties"].items()
        if not found["description"] and "enum" not in json.dumps(found)
    }
    sections = {"training", "search", "objective", "scheduler", "resources", "timeouts", "stop"}
    sections.add("checkpoints")
    assert silent - {f"ExperimentSpec.{name}" for name in sections} == set()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("lr", "'search.space.lr' or 'training.lr'"),
        ("epochs", "'scheduler.max_t'"),
        ("metric", "'objective.metric'"),
        ("sede", "'seed'"),
    ],
)
def test_with_hints_names_where_a_key_belongs(key: str, meant: str) -> None:
    _, faults = parse(ExperimentSpec, {**GOOD, key: 1})
    [fault] = with_hints(faults)
    assert fault.rule == f"unknown key {key!r} (did you mean {meant}?)"
