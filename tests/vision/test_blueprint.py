from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from tuner.spec.settings import parse
from tuner.vision.blueprint import Blueprint, build_blueprint
from tuner.vision.catalog import DATASETS
from tuner.vision.model_catalog import MODELS
from tuner.vision.settings import ClassifierSettings

PLAN = {
    "name": "cnn",
    "settings": {"width": 4, "norm": "group"},
    "in_channels": 1,
    "image_size": 8,
    "num_classes": 10,
}


def build_settings(name):
    extra = {"width": 4} if "width" in MODELS[name].defaults else {}
    return ClassifierSettings(model=name, dataset="cifar10", **extra)


def build_model(settings):
    return build_blueprint(settings).initialize_model()


@pytest.mark.parametrize("name", MODELS)
def test_build_rebuilds_every_model_from_its_weights(name):
    data = replace(DATASETS["cifar10"], image_size=max(32, MODELS[name].smallest))
    plan = build_blueprint(build_settings(name), data)
    original = plan.initialize_model().eval()
    before = torch.random.get_rng_state()
    again = Blueprint.model_validate(plan.model_dump(mode="json"))
    model = again.build(deepcopy(dict(original.state_dict())))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(parameter.requires_grad for parameter in model.parameters())
    x = torch.randn(2, plan.in_channels, plan.image_size, plan.image_size)
    assert not model.training
    assert torch.equal(model(x), original(x))


CHANGES = [
    {"name": "cn"},
    {"settings": {"width": 4}},
    {"settings": {"width": 0, "norm": "group"}},
    {"settings": {"width": 4, "norm": "no"}},
    {"name": "net", "settings": {"l1": 8, "l2": 8}},
    {"image_size": 0},
    {"code": "import os"},
]


def test_blueprint_rejects_what_cannot_be_built(snapshot):
    for changes in CHANGES:
        plan, faults = parse(Blueprint, PLAN | changes)
        assert plan is None
        snapshot("\n".join([f"{changes}", *map(str, faults)]))
