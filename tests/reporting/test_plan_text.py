"""What `tuner validate` says."""

import pytest
import yaml

from tuner.reporting.plan_text import format_plan
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.plan import describe_plan
from tuner.spec.validation import Machine

SPEC = {
    "name": "mine",
    "search": {"space": {"lr": "loguniform(1e-3, 1)"}},
    "scheduler": {"max_t": 10, "reduction_factor": 3},
    "num_samples": 24,
    "storage": "results",
}


def plan_of_changed(*, here=False, **changes):
    """The lines of the plan of a spec with these changes, without the spec."""
    spec = build_spec(SPEC | changes)
    text = format_plan(spec, describe_plan(spec, here=here), "mine.yaml")
    return text.partition("Its spec")[0]


CHANGES = {
    "default search": {},
    "random search": {"search": {"strategy": "random", **SPEC["search"]}},
    "several objectives": {
        "objectives": [{"metric": "val_accuracy"}, {"metric": "latency_ms"}]
    },
    "shares": {"resources": {"cpus": 0.5, "gpus": 0.25}},
    "workers": {"resources": {"cpus": 2, "gpus": 1, "workers": 2}},
    "stages": {"resources": {"split": 3}},
    "ends early": {"stop": {"target": 0.1, "utility": 0.01}},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_plan_text_of_a_spec(snapshot, changes):
    snapshot(plan_of_changed(**changes))


def test_plan_text_has_the_trials_that_fit(snapshot, monkeypatch):
    monkeypatch.setattr(Machine, "detect", lambda: Machine(cpus=8, gpus=2))
    for resources, most in (
        ({"cpus": 2}, None),
        ({"cpus": 4, "gpus": 2}, None),
        ({}, 3),
    ):
        snapshot(plan_of_changed(here=True, resources=resources, max_concurrent=most))


def test_plan_text_lists_nodes(snapshot):
    nodes = [{"address": "10.0.0.1", "cpus": 4.0, "gpus": 0.0, "trials": 1}]
    spec = build_spec(SPEC | {"resources": {"workers": 3}})
    plan = {
        **describe_plan(spec, here=False),
        "at_once": 2,
        "nodes": nodes,
        "across_nodes": 1,
    }
    snapshot(format_plan(spec, plan, "mine.yaml"))


def test_plan_text_lists_layers(snapshot):
    stage = {
        "name": "a\x1bside",
        "kind": "Conv2d",
        "output": (16, 8, 8),
        "parameters": 1234,
    }
    network = {
        "model": "my_net:MyNet",
        "settings": {"model_args": {"width": 16}},
        "stages": [stage],
        "parameters": 1240,
        "trainable": 6,
        "unused": ["conv.bias"],
    }
    spec = build_spec({"search": {"space": {"lr": 1}}, "num_samples": 1})
    snapshot(
        format_plan(
            spec, {**describe_plan(spec, here=False), "networks": [network]}, "here"
        )
    )


def test_plan_text_ends_with_the_spec():
    spec = build_spec(SPEC)
    text = format_plan(spec, describe_plan(spec, here=False), "mine.yaml")
    after = text.partition("Its spec\n")[2]
    assert ExperimentSpec.from_text(after) == spec
    assert yaml.safe_load(after)["name"] == "mine"
