"""The spec: whole validation, lossless text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import SpecError
from tuner.spec.code import CLASSIFIER_BEFORE, IMAGE_CLASSIFIER
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.space.spaces import format_space
from tuner.spec.text import apply_assignments
from tuner.testing.spaces import spaces

MINIMAL: dict[str, Any] = {
    "search": {"space": {"lr": "uniform(0, 1)"}},
    "num_samples": 3,
}

HUGE_GRID = {
    "strategy": "grid",
    "space": dict.fromkeys("abcd", "uniform(0, 1)"),
    "points": 1000,
}


def faults(raw):
    with pytest.raises(SpecError) as refused:
        build_spec(raw)
    return [str(fault) for fault in refused.value.faults]


@given(
    space=spaces,
    seed=st.integers(0, 2**32 - 1),
    samples=st.integers(1, 10**6),
    scheduler=st.sampled_from(["asha", "none", {"max_t": 81, "grace_period": 3}]),
    gpus=st.sampled_from([0, 0.25, 1, 4]),
    mode=st.sampled_from(["min", "max"]),
)
def test_spec_round_trips_through_json_and_yaml(
    space, seed, samples, scheduler, gpus, mode
):
    spec = build_spec(
        {
            "search": {"space": space},
            "seed": seed,
            "num_samples": samples,
            "scheduler": scheduler,
            "resources": {"gpus": gpus},
            "objective": {"metric": "loss", "mode": mode},
        }
    )
    assert ExperimentSpec.from_text(spec.to_json()) == spec
    assert ExperimentSpec.from_text(spec.to_yaml()) == spec
    assert format_space(spec.search.space) == format_space(space)


def test_build_spec_reports_all_faults(snapshot):
    with snapshot.raises(SpecError) as refused:
        build_spec(
            {
                "name": "../x",
                "search": {"strategy": "bo", "space": {"lr": "loguniform(1, 0)"}},
                "objective": {"metric": "loss", "mode": "mx"},
                "scheduler": {"max_t": 10, "grace_period": 30},
                "resources": {"cpus": -1, "gpus": float("nan")},
                "num_samples": 0,
                "sede": 1,
            }
        )
    assert len(refused.value.faults) == 9


REFUSED = (
    {"search": {"space": {}}},
    {"search": {"space": {"a": "choice([])"}}},
    {"search": {"space": {"a.b": 1}}},
    {
        "training": {"model_args": {"width": 1, "depth": 2}},
        "search": {"space": {"model_args": {"width": "choice([1])"}}},
    },
    {"search": {"space": {"a": 1}, "points": 3}},
    {"num_samples": None},
    {"scheduler": "hyperband"},
    {"resources": {"gpus": 1.5}},
    {"training": {"lr": 1}},
    {"training": {"model_args": {"width": "randint(1, 9)"}}},
    {"trainable": "nowhere"},
    {"storage": "s3:/b"},
    {"storage": "a\0b"},
    {"num_samples": 10**10},
    {"search": {"strategy": "grid", "space": {"a": "uniform(0, 1)"}, "points": 1001}},
    {"num_samples": None, "search": HUGE_GRID},
    {"search": {"space": dict.fromkeys(map(str, range(1001)), 1)}},
)


@pytest.mark.parametrize("change", REFUSED)
def test_build_spec_invalid_value_is_refused(snapshot, change):
    with snapshot.raises(SpecError):
        build_spec({**MINIMAL, **change})


@pytest.mark.parametrize(
    ("assignments", "brackets"),
    [
        ([], 1),
        (["search.strategy=bohb"], 2),
        (["search.strategy=bohb", "scheduler.brackets=1"], 1),
        (["scheduler.brackets=3"], 3),
        (["search.strategy=bohb", "scheduler=none"], 1),
        (["search.strategy=bohb", "scheduler={max_t: 3, grace_period: 3}"], 1),
    ],
)
def test_brackets_default_to_one_except_for_bohb(assignments, brackets):
    assert build_spec(apply_assignments(MINIMAL, assignments)).brackets == brackets


@pytest.mark.parametrize(
    ("assignments", "epochs"),
    [
        (["scheduler.max_t=7"], 7),
        (["scheduler=none"], None),
        (["scheduler=none", "training.epochs=4"], 4),
        (["scheduler.max_t=7", "training.epochs=4"], 4),
        (["scheduler.max_t=7", "training.epochs=40"], 7),
    ],
)
def test_epochs_is_the_shorter_length(assignments, epochs):
    assert build_spec(apply_assignments(MINIMAL, assignments)).epochs == epochs


def test_trainable_accepts_object_or_dotted_path():
    assert build_spec({**MINIMAL, "trainable": json.dumps}).trainable == "json:dumps"
    assert build_spec({**MINIMAL, "trainable": "a.b.C"}).trainable == "a.b:C"
    for same in ({}, {"trainable": CLASSIFIER_BEFORE}):
        assert build_spec({**MINIMAL, **same}).trainable == IMAGE_CLASSIFIER


def a_network(num_classes):
    """Stands for a network."""


def test_training_model_accepts_a_class(snapshot):
    spec = build_spec({**MINIMAL, "training": {"model": a_network}})
    assert spec.training == {"model": f"{__name__}:a_network"}
    assert spec.needs_code
    assert not spec.replace(training={"model": "cnn"}).needs_code
    assert spec.replace(training={}, trainable="mine:Learner").needs_code
    a_network.__module__, module = "__main__", a_network.__module__
    for network in (a_network, lambda: 0):
        with snapshot.raises(SpecError):
            build_spec({**MINIMAL, "training": {"model": network}})
    a_network.__module__ = module
