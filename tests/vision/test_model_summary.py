"""The stages and the parameters of a model, and the time of a step."""

import time

import pytest
import torch
from own_networks import own

from tuner.vision.blueprint import Blueprint, build_blueprint
from tuner.vision.model_summary import measure_step_s, summarize_model
from tuner.vision.settings import ClassifierSettings


@pytest.mark.parametrize(
    ("name", "settings", "frozen"),
    [
        ("cnn", {"width": 4, "norm": "batch"}, ()),
        ("resnet20", {"norm": "batch"}, ("stem.*",)),  # its blocks are not opened
        (own("Unused"), {"model_args": {}}, ("aside.bias",)),
        (own("Sharing"), {"model_args": {}}, ()),
    ],
)
def test_summary_has_stages_and_parameters(snapshot, name, settings, frozen):
    shape = {"in_channels": 1, "image_size": 8, "num_classes": 10}
    plan = Blueprint(name=name, settings=settings, **shape)
    summary = summarize_model(plan, frozen=frozen)
    total = sum(parameter.numel() for parameter in plan.initialize_model().parameters())
    assert (
        sum(stage["parameters"] for stage in summary["stages"])
        == summary["parameters"]
        == total
    )
    snapshot("\n".join([*map(str, summary.pop("stages")), str(summary)]))


def test_step_s_measures_on_the_threads_of_a_trial_and_leaves_the_process_as_it_was():
    torch.set_num_threads(2)
    settings = ClassifierSettings(model="cnn", width=4, batch_size=8)
    began = time.perf_counter()
    step_s = measure_step_s(build_blueprint(settings), settings, threads=1, gpu=False)
    assert 0 < step_s < time.perf_counter() - began
    assert torch.get_num_threads() == 2
