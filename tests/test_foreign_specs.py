"""Whatever stands in a spec's file: a plan of what would run, or every fault in words."""

from __future__ import annotations

import json
from typing import Any

import hostile
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import SpecError
from tuner.planning.plan import plan_of
from tuner.planning.validation import Machine, validate
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.strategies import SEARCHERS
from tuner.spec.text import override, read_mapping

SPEC: dict[str, Any] = {
    "name": "x",
    "training": {"model": "cnn", "dataset": "digits", "width": 4},
    "search": {
        "space": {
            "lr": "loguniform(0.001, 1)",
            "batch_size": "choice([32, 64])",
            "optimizer": "choice(['sgd', 'adamw'])",
        },
        "forbid": ["lr > 0.1 and batch_size < 64"],
    },
    "objective": {"metric": "val_loss", "mode": "min"},
    "scheduler": {"max_t": 9, "grace_period": 1, "reduction_factor": 3},
    "resources": {"cpus": 1, "gpus": 0, "workers": 1},
    "timeouts": {"report_s": 60},
    "num_samples": 4,
    "seed": 1,
    "storage": "results",
}


@settings(max_examples=300)
@given(
    raw=st.sampled_from(SEARCHERS.names()).flatmap(
        lambda name: hostile.mutated({**SPEC, "search": {**SPEC["search"], "strategy": name}})
    )
)
def test_a_spec_is_planned_or_its_faults_are_told(raw: object) -> None:
    try:
        read = override(read_mapping(json.dumps(raw)), ["max_concurrent=2"])
        spec = validate(read, machine=Machine(cpus=4, gpus=0))
    except SpecError as refused:
        assert refused.faults  # noqa: PT017 - either outcome is right
        return
    assert plan_of(spec, here=True)
    assert dict(ExperimentSpec.from_text(spec.to_json())) == dict(spec)  # one is a ValidatedSpec
    assert dict(ExperimentSpec.from_text(spec.to_yaml())) == dict(spec)


LAUGHS = ["&a0 [1, 1]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"[{', '.join(LAUGHS)}]", "it holds more than 200,000 values"),
        ("&x [*x]", "it is nested deeper than 30 levels"),
        (f"{'[' * 40}{']' * 40}", "it is nested deeper than 30 levels"),
        (f"1{'0' * 301}", "it holds a number beyond 1e\\+300"),
        (f"1{':1' * 3000}", "it holds a number beyond 1e\\+300"),
        ("9" * 5000, "Exceeds the limit"),
        ("!!set {b}", "it holds a set, which JSON has not"),
        ("!!binary YQ==", "it holds a bytes, which JSON has not"),
        ("!!timestamp 2001-01-01", "it holds a date, which JSON has not"),
        ("!!int ''", "string index out of range"),
        ("!!bool x", "'x'"),
        ("!!python/object/apply:os.system [id]", "could not determine a constructor"),
    ],
)
def test_what_yaml_has_beyond_json_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SpecError, match=f"is neither YAML nor JSON: .*{reason}"):
        read_mapping(f"a: {text}")
    with pytest.raises(SpecError, match=f"training.a: cannot be read: .*{reason}"):
        override(SPEC, [f"training.a={text}"])


def test_a_date_is_text() -> None:
    assert read_mapping("a: 2001-01-01") == {"a": "2001-01-01"}
