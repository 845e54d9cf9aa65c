"""The stages and the parameters of a model, and the time of a step."""

import pytest
import torch
from own_networks import own

from tuner.vision.blueprint import Blueprint, build_blueprint
from tuner.vision.model_summary import measure_step_s, summarize_model
from tuner.vision.settings import ClassifierSettings


def stage(name, kind, output, parameters):
    return {"name": name, "kind": kind, "output": output, "parameters": parameters}


def shipped_plan(name, **settings):
    shape = {"in_channels": 1, "image_size": 8, "num_classes": 10}
    return Blueprint(name=name, settings=settings, **shape)


def test_summary_has_shapes_and_parameters_of_stages():
    summary = summarize_model(build_blueprint(ClassifierSettings(model="cnn", width=4)))
    stages = {each["name"]: each for each in summary["stages"]}
    assert stages["features.0"] == stage("features.0", "Conv2d", (4, 8, 8), 36)
    assert stages["features.6"]["output"] == (8, 4, 4)
    assert stages["head"] == stage("head", "Linear", (10,), 170)
    total = sum(
        p.numel()
        for p in build_blueprint(ClassifierSettings(width=4)).initialize_model().parameters()
    )
    assert sum(each["parameters"] for each in summary["stages"]) == summary["parameters"] == total
    assert summary["trainable"] == total
    assert summary["mib"] == pytest.approx(4 * total / 2**20)


def test_summary_opens_containers_but_no_blocks():
    names = [
        each["name"] for each in summarize_model(shipped_plan("resnet20", norm="batch"))["stages"]
    ]
    assert names[0] == "stem"
    assert names[3:12] == [f"blocks.{number}" for number in range(9)]


def test_summary_includes_uncalled_parts_and_direct_parameters():
    summary = summarize_model(shipped_plan(own("Unused"), model_args={}), frozen=("aside.bias",))
    assert summary["unused"] == ["aside.weight"]
    stages = summary["stages"]
    assert stages[-2:] == [
        stage("aside", "Linear", (), 12),
        stage("", "its own parameters", (), 10),
    ]


def test_summary_counts_shared_parameters_once():
    summary = summarize_model(shipped_plan(own("Sharing"), model_args={}))
    assert len(summary["stages"]) > 3
    assert sum(each["parameters"] for each in summary["stages"]) == summary["parameters"]


def test_step_s_measures_on_the_threads_of_a_trial_and_leaves_the_process_as_it_was():
    torch.set_num_threads(2)
    settings = ClassifierSettings(model="cnn", width=4, batch_size=8)
    assert measure_step_s(build_blueprint(settings), settings, threads=1, gpu=False) > 0
    assert torch.get_num_threads() == 2
