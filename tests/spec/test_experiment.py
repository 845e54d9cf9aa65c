"""The spec: whole validation, lossless text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import SpecError
from tuner.spec.code import CLASSIFIER_BEFORE, IMAGE_CLASSIFIER
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.space.spaces import space_text
from tuner.spec.strategies import SEARCHERS
from tuner.testing.spaces import spaces

MINIMAL: dict[str, Any] = {"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 3}

HUGE_GRID = {"strategy": "grid", "space": dict.fromkeys("abcd", "uniform(0, 1)"), "points": 1000}


def faults(raw: dict[str, Any]) -> list[str]:
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
def test_spec_round_trips_through_json_and_yaml(space, seed, samples, scheduler, gpus, mode):
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
    assert space_text(spec.search.space) == space_text(space)


def test_build_spec_reports_all_faults():
    messages = faults(
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
    text = "\n".join(messages)
    assert len(messages) == 9
    for part in (
        "name: must be letters",
        "got '../x'",
        "search.strategy: unknown search 'bo' (did you mean 'bohb'?); "
        f"available: {', '.join(SEARCHERS.names())}",
        "search.space.lr: loguniform: lower must be at most upper, got 1 and 0",
        "objective.mode: unknown mode 'mx' (did you mean 'max'?); available: max, min",
        "scheduler.grace_period: must be at most max_t, got 30 and 10",
        "resources.cpus: must be at least 0.0001, got -1",
        "resources.gpus: must be a finite number, got nan",
        "num_samples: must be at least 1, got 0",
        "sede: unknown key 'sede' (did you mean 'seed'?)",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"search": {"space": {}}}, "search.space: is empty"),
        ({"search": {"space": {"a": "choice([])"}}}, "search.space.a: choice needs at least one"),
        (
            {"search": {"space": {"a.b": 1}}},
            "names must be text without '.', '/' or spaces; nest them: model_args: {width: ...}",
        ),
        (
            {
                "training": {"model_args": {"width": 1, "depth": 2}},
                "search": {"space": {"model_args": {"width": "choice([1])"}}},
            },
            "training.model_args.width: is also searched: set search.space.model_args.width",
        ),
        ({"search": {"space": {"a": 1}, "points": 3}}, "search.points: unknown key 'points'"),
        ({"num_samples": None}, "num_samples: is required, unless the search is grid"),
        ({"scheduler": "hyperband"}, "scheduler: unknown scheduler 'hyperband'; available: asha"),
        ({"resources": {"gpus": 1.5}}, "resources.gpus: must be a share below 1 or a whole number"),
        ({"training": {"lr": 1}}, "training.lr: is also searched: set search.space.lr instead"),
        (
            {"training": {"model_args": {"width": "randint(1, 9)"}}},
            "training.model_args.width: is a domain: write it in search.space, got 'randint(1, 9)'",
        ),
        ({"trainable": "nowhere"}, "trainable: must be a dotted path"),
        ({"storage": "s3:/b"}, "storage: must be a folder, or a URL such as s3://BUCKET/FOLDER"),
        ({"storage": "a\0b"}, "storage: must be a path"),
        ({"num_samples": 10**10}, "num_samples: must be at most 1000000000"),
        (
            {"search": {"strategy": "grid", "space": {"a": "uniform(0, 1)"}, "points": 1001}},
            "search.points: must be a whole number from 1 to 1000, or such a number for each name, "
            "got 1001",
        ),
        (
            {"num_samples": None, "search": HUGE_GRID},
            "num_samples: is required: there are more than 1,000,000,000 configs",
        ),
        ({"search": {"space": dict.fromkeys(map(str, range(1001)), 1)}}, "at most 1000 hyperp"),
    ],
)
def test_build_spec_invalid_value_is_refused(change, fault):
    assert fault in "\n".join(faults({**MINIMAL, **change}))


def test_brackets_default_to_one_except_for_bohb():
    bohb = {"search": {**MINIMAL["search"], "strategy": "bohb"}}
    assert build_spec(MINIMAL).brackets == 1
    assert build_spec(MINIMAL | bohb).brackets == 2
    assert build_spec({**MINIMAL, **bohb, "scheduler": {"brackets": 1}}).brackets == 1
    assert build_spec({**MINIMAL, "scheduler": {"brackets": 3}}).brackets == 3
    assert build_spec({**MINIMAL, **bohb, "scheduler": "none"}).brackets == 1
    short = {"scheduler": {"max_t": 3, "grace_period": 3}}
    assert build_spec({**MINIMAL, **bohb, **short}).brackets == 1


def test_epochs_is_the_shorter_length():
    def epochs(**changes: Any) -> int | None:
        return build_spec({**MINIMAL, **changes}).epochs

    assert epochs(scheduler={"max_t": 7}) == 7
    assert epochs(scheduler="none") is None
    assert epochs(scheduler="none", training={"epochs": 4}) == 4
    assert epochs(scheduler={"max_t": 7}, training={"epochs": 4}) == 4
    assert epochs(scheduler={"max_t": 7}, training={"epochs": 40}) == 7


def test_trainable_accepts_object_or_dotted_path():
    assert build_spec({**MINIMAL, "trainable": json.dumps}).trainable == "json:dumps"
    assert build_spec({**MINIMAL, "trainable": "a.b.C"}).trainable == "a.b:C"
    for same in ({}, {"trainable": CLASSIFIER_BEFORE}):
        assert build_spec({**MINIMAL, **same}).trainable == IMAGE_CLASSIFIER


def a_network(num_classes: int) -> None:
    """Stands for a network."""


def test_training_model_accepts_a_class(snapshot):
    search = {"space": {"lr": "uniform(0, 1)"}}
    spec = build_spec({"training": {"model": a_network}, "search": search, "num_samples": 1})
    assert spec.training == {"model": f"{__name__}:a_network"}
    assert spec.needs_code
    assert not spec.replace(training={"model": "cnn"}).needs_code
    assert spec.replace(training={}, trainable="mine:Learner").needs_code
    a_network.__module__, module = "__main__", a_network.__module__
    for network in (a_network, lambda: 0):
        with snapshot.raises(SpecError):
            build_spec({"training": {"model": network}, "search": search, "num_samples": 1})
    a_network.__module__ = module
