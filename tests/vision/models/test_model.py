"""What every model that ships must hold to."""

import pytest
import torch
from torch import nn

from tuner.vision.blueprint import Blueprint
from tuner.vision.model_catalog import MODELS
from tuner.vision.pipeline import list_layers

LAYERED = tuple(name for name, info in MODELS.items() if info.layers > 1)


def build(model, *, channels=3, size=32, **settings):
    return Blueprint(
        name=model,
        settings=MODELS[model].defaults | settings,
        in_channels=channels,
        image_size=size,
        num_classes=10,
    ).initialize_model()


@pytest.mark.parametrize("model", MODELS)
def test_model_trains_on_its_smallest_image(model):
    info = MODELS[model]
    channels = info.channels or 1
    net = build(model, channels=channels, size=info.smallest)
    logits_NK = net(torch.randn(2, channels, info.smallest, info.smallest))
    assert logits_NK.shape == (2, 10)
    logits_NK.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("name", LAYERED)
def test_layers_of_a_model_compose_it(name):
    model = build(name).eval()
    assert len(list_layers(model)) == MODELS[name].layers
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(nn.Sequential(*list_layers(model))(x), model(x))


def test_models_agree_on_shared_hyperparameters():
    kinds = {}
    for info in MODELS.values():
        for name, field in info.settings.model_fields.items():
            kind = (field.annotation, field.metadata, field.description)
            assert kinds.setdefault(name, kind) == kind, name
