"""The keys of a spec: each is described, and a misplaced one is named where it belongs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schema import SECTIONS, schedulers, schema_of, strategies, with_hints
from tuner.spec.settings import parse
from tuner.vision.settings import ClassifierSettings

GOOD: dict[str, Any] = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 3}


def test_schema_of_describes_every_key() -> None:
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
