"""Whatever stands in a spec's file: a plan of what would run, or every fault in words."""

import json
from typing import Any

import hostile
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import SpecError
from tuner.spec import text as text_reader
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.plan import describe_plan
from tuner.spec.strategies import SEARCHERS
from tuner.spec.text import apply_assignments, read_mapping
from tuner.spec.validation import Machine, validate

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


@pytest.fixture(autouse=True, scope="module")
def _read_fewer_values():
    """YAML is read slowly, and the limit works as well below its usual height."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_reader, "MOST", 1_000)
        yield


@settings(max_examples=4 * settings.default.max_examples)
@given(
    raw=st.sampled_from(SEARCHERS.list_names()).flatmap(
        lambda name: hostile.mutated(
            {**SPEC, "search": {**SPEC["search"], "strategy": name}}
        )
    )
)
def test_validate_any_spec_is_planned_or_refused(raw):
    try:
        read = apply_assignments(read_mapping(json.dumps(raw)), ["max_concurrent=2"])
        spec = validate(read, machine=Machine(cpus=4, gpus=0))
    except SpecError as refused:
        assert refused.faults  # noqa: PT017 - either outcome is right
        return
    assert describe_plan(spec, here=True)
    assert ExperimentSpec.from_text(spec.to_json()) == spec
    assert dict(ExperimentSpec.from_text(spec.to_yaml())) == dict(spec)


LAUGHS = [
    "&a0 [1, 1]",
    *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)),
]


@pytest.mark.parametrize(
    "text",
    [
        f"[{', '.join(LAUGHS)}]",
        f"[{'1,' * 1_000}]",
        f"'{'x' * (1 << 20)}'",
        "{<<: {b: 1}}",
        "{!!merge b: {c: 1}}",
        "{1: 2}",
        "9" * 32_000,
        "&x [*x]",
        f"{'[' * 40}{']' * 40}",
        f"1{'0' * 301}",
        f"1{':1' * 300}",
        f"1{':1' * 3000}",
        "!!set {b}",
        "!!binary YQ==",
        "!!timestamp 2001-01-01",
        "!!int ''",
        "!!bool x",
        "!!python/object/apply:os.system [id]",
    ],
)
def test_read_mapping_refuses_yaml_beyond_json(snapshot, text):
    with snapshot.raises(SpecError):
        read_mapping(f"a: {text}")
    with snapshot.raises(SpecError):
        apply_assignments(SPEC, [f"training.a={text}"])


@pytest.mark.parametrize("text", ["2001-01-01", "1.2.3", "1e-3x", "192.168.0.1"])
def test_read_mapping_partial_number_is_text(text):
    assert read_mapping(f"a: {text}") == {"a": text}


def merging(levels):
    """A few lines in which each level merges the one before nine times."""
    lines = ["a0: &a0 {x: 1}"]
    for n in range(1, levels):
        lines.append(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        merging(12),
        "[" * 3_000,
        "- " * 3_000,
        "a: [" + "[], " * 300_000,
        "a: [" + "[], " * 1_000,
    ],
)
def test_read_mapping_refuses_huge_text_before_building(text, snapshot):
    with snapshot.raises(SpecError):
        read_mapping(text)


def test_spec_error_shows_the_first_of_many_faults(snapshot):
    many = {f"k{number}": "x" * 10_000 for number in range(1000)}
    with snapshot.raises(SpecError) as refused:
        build_spec({**SPEC, **many})
    assert len(refused.value.faults) == 1000
    assert len(str(refused.value)) < 100_000


def test_fault_cuts_long_values(snapshot):
    with snapshot.raises(SpecError) as raised:
        build_spec({**SPEC, "seed": "x" * 100_000})
    assert len(str(raised.value)) < 500
    text = f"choice([{'1, ' * 40_000}])"
    with snapshot.raises(SpecError) as raised:
        build_spec({**SPEC, "search": {"space": {"lr": text}}})
    assert len(str(raised.value)) < 500
