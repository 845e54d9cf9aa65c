"""What `tuner validate` and `tuner refine` say."""

import json
from pathlib import Path

import yaml
from confirmed import searched

from tuner.experiment.results.refinement import refine
from tuner.reporting.plan_text import plan_text, refinement_json, refinement_text
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.plan import plan_of
from tuner.spec.validation import Machine

SPEC = {
    "name": "mine",
    "search": {"space": {"lr": "loguniform(1e-3, 1)"}},
    "scheduler": {"max_t": 10, "reduction_factor": 3},
    "num_samples": 24,
    "storage": "results",
}


def plan_rows(*, here=False, **changes):
    spec = build_spec(SPEC | changes)
    lines = plan_text(spec, plan_of(spec, here=here), "mine.yaml").splitlines()
    facts = lines[1 : lines.index("")]
    return {line[2:14].strip(): line[15:] for line in facts}


def test_plan_text_of_random_search():
    assert plan_rows() == {
        "From": "mine.yaml",
        "Trials": "24, random search",
        "Objective": "val_loss, the lower the better",
        "Each trial": "10 epochs, 1 CPU",
        "At once": "as many as fit",
        "Stopping": "ASHA at epoch 1, 3, 9: the best 1 in 3 goes on",
        "Same seed": "the same configs, but timing decides which trials are stopped",
        "Results": "results/mine",
    }


def test_plan_text_lists_every_objective():
    rows = plan_rows(objectives=[{"metric": "val_accuracy"}, {"metric": "latency_ms"}])
    assert (
        rows["Objective"] == "val_accuracy, the higher the better; latency_ms, the lower the better"
    )


def test_plan_text_has_the_resources_of_a_trial():
    assert plan_rows(resources={"cpus": 0.5, "gpus": 0.25})["Each trial"].endswith(
        "0.5 CPUs and 0.25 GPUs"
    )
    two = plan_rows(resources={"cpus": 2, "gpus": 1, "workers": 2})
    assert two["Each trial"].endswith("2 workers of 2 CPUs and 1 GPU")
    assert "Note" not in two
    assert plan_rows(resources={"split": 3})["Each trial"].endswith("3 stages of 1 CPU")


def test_plan_text_has_the_trials_that_fit(monkeypatch):
    monkeypatch.setattr(Machine, "here", lambda: Machine(cpus=8, gpus=2))
    assert plan_rows(here=True, resources={"cpus": 2})["At once"] == "4 on this machine's 8 CPUs"
    rows = plan_rows(here=True, resources={"cpus": 4, "gpus": 2})
    assert rows["At once"] == "1 on this machine's 8 CPUs and 2 GPUs"
    assert plan_rows(here=True, max_concurrent=3)["At once"] == "3, which is max_concurrent"


def test_plan_text_says_which_gain_ends_the_search():
    ends = plan_rows(stop={"target": 0.1, "utility": 0.01})["Ends early"]
    assert ends == "at val_loss 0.1; when less than 0.01 more is expected of another hour"


def test_plan_text_lists_nodes():
    nodes = [{"address": "10.0.0.1", "cpus": 4.0, "gpus": 0.0, "trials": 1}]
    spec = build_spec(SPEC | {"resources": {"workers": 3}})
    plan = {**plan_of(spec, here=False), "at_once": 2, "nodes": nodes, "across_nodes": 1}
    text = plan_text(spec, plan, "mine.yaml")
    assert "  At once      2 on the cluster as it is now\n" in text
    assert "  1 on 10.0.0.1 with 4 CPUs\n" in text
    assert "  1 whose workers span several nodes\n" in text


def test_plan_text_lists_layers():
    stage = {"name": "a\x1bside", "kind": "Conv2d", "output": (16, 8, 8), "parameters": 1234}
    network = {
        "model": "my_net:MyNet",
        "settings": {"model_args": {"width": 16}},
        "stages": [stage],
        "parameters": 1240,
        "trainable": 6,
        "unused": ["conv.bias"],
    }
    spec = build_spec({"search": {"space": {"lr": 1}}, "num_samples": 1})
    text = plan_text(spec, {**plan_of(spec, here=False), "networks": [network]}, "here")
    lines = text.partition("\n\n")[2].splitlines()
    assert lines[0] == "my_net:MyNet model_args.width=16"
    assert lines[2].split() == ["a", "side", "Conv2d", "16", "x", "8", "x", "8", "1,234"]
    assert lines[3] == "  1,240 parameters, 6 of them train"
    assert lines[4] == "  no gradient reaches conv.bias"


def test_plan_text_ends_with_the_spec():
    spec = build_spec(SPEC)
    text = plan_text(spec, plan_of(spec, here=False), "mine.yaml")
    after = text.partition("Its spec\n")[2]
    assert ExperimentSpec.from_text(after) == spec
    assert yaml.safe_load(after)["name"] == "mine"


def test_refinement_text_shows_each_change(tmp_path):
    space = {"lr": "loguniform(0.001, 1)", "k": 3}
    search = searched(
        tmp_path / "digits", {0.1: 0.9}, search={"strategy": "random", "space": {"lr": space["lr"]}}
    )
    refinement = refine(search, points=3)
    path = Path("my own.yaml")
    change = "\n  lr  loguniform(0.0501187, 0.199527)  (was loguniform(0.001, 1))\n"
    assert change in refinement_text(refinement, path, space)
    assert json.loads(json.dumps(refinement_json(refinement, path))) == {
        "path": "my own.yaml",
        "command": "tuner run 'my own.yaml'",
        "trials": 3,
        "leading": ["00000"],
        "space": {"lr": "loguniform(0.0501187, 0.199527)"},
    }
