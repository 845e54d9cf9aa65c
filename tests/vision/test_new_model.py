"""A foreign network is tried before it trains, and its faults are reported; summaries of models."""

import random

import numpy as np
import pytest
import torch
from own_networks import own

from tuner.errors import SpecError
from tuner.vision.blueprint import Blueprint
from tuner.vision.new_model import find_logits_fault, find_unused_parameters, set_layout
from tuner.vision.precision import Precision


def plan(name, *, image_size=8, in_channels=1, **model_args):
    return Blueprint(
        name=own(name),
        settings={"model_args": model_args},
        in_channels=in_channels,
        image_size=image_size,
        num_classes=5,
    )


def tried(name, **options):
    blueprint = plan(name, **options)
    model = blueprint.initialize_model()
    set_layout(model, blueprint, Precision("cpu"))
    return model


def is_channels_last(model):
    weights = [p for p in model.parameters() if p.dim() == 4 and p.shape[1] > 1]
    return all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)


def test_set_layout_puts_the_channels_last_if_possible():
    model = tried("Plain", in_channels=3)
    assert is_channels_last(model)
    assert not model._forward_pre_hooks


@pytest.mark.parametrize("in_channels", [1, 3])
def test_set_layout_of_a_network_with_view_puts_the_channels_first(in_channels):
    model = tried("Small", in_channels=in_channels, width=6)
    if in_channels > 1:
        assert not is_channels_last(model)
    x_NCHW = torch.rand(4, 8, 8, in_channels).permute(0, 3, 1, 2)
    assert model.eval()(x_NCHW).shape == (4, 5)


def test_set_layout_leaves_weights_modes_and_generators():
    blueprint = plan("Drawing")
    model = blueprint.initialize_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.norm.eval()
    states = (
        random.getstate(),
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),
    )
    set_layout(model, blueprint, Precision("cpu"))
    after = (
        random.getstate(),
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),
    )
    assert after == states
    assert all(
        torch.equal(value, before[name]) for name, value in model.state_dict().items()
    )
    assert all(parameter.grad is None for parameter in model.parameters())
    assert (model.training, model.norm.training) == (True, False)


@pytest.mark.parametrize(
    "name",
    ["Probable", "wide", "torn", "no_network", "any_arguments", "missing"],
)
def test_set_layout_of_a_broken_network_reports_one_fault(snapshot, name):
    with snapshot.raises(SpecError) as refused:
        tried(name)
    assert len(refused.value.faults) == 1


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("Small", []),
        ("Sharing", []),
        ("Unused", ["aside.weight", "aside.bias"]),
        ("Detached", ["conv.weight", "conv.bias", "norm.weight", "norm.bias"]),
    ],
)
def test_without_gradient_names_unreached_parameters(name, unused):
    model = tried(name)
    assert find_unused_parameters(model, plan(name), Precision("cpu")) == unused
    assert all(parameter.grad is None for parameter in model.parameters())
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    assert find_unused_parameters(model, plan(name), Precision("cpu")) == []


def test_without_gradient_rejects_layers_in_a_list(snapshot):
    model = tried("Listed")
    with snapshot.raises(SpecError):
        find_unused_parameters(model, plan("Listed"), Precision("cpu"))


OUTPUTS = [
    torch.zeros(2, 3),
    torch.zeros(2, 3, dtype=torch.bfloat16),
    torch.zeros(3, 2),
    torch.zeros(()),
    torch.zeros(2, 3, dtype=torch.int64),
    (torch.zeros(2, 3),),
]


def test_fault_of_logits_names_shape_and_type(snapshot):
    snapshot("\n".join(str(find_logits_fault(output, 2, 3)) for output in OUTPUTS))
