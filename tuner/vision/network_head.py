"""The head of a network: its last layer, if that is linear."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tuner.errors import Fault
from tuner.trial.failures import format_error, is_out_of_memory
from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import seed_generators
from tuner.vision.settings import build_settings_error

_TRIED = 2  # images on which a head is tried


def find_head(model: nn.Module) -> str:
    """The name of the layer that holds the last parameter."""
    return [name for name, _ in model.named_parameters()][-1].rpartition(".")[0]


def check_head(model: nn.Module, plan: Blueprint) -> None:
    """Raise SpecError unless the logits of `model` are what its head returns.

    A head that trains on features takes the place of that layer alone, so nothing may come after
    it, and it must be called once. Puts `model` into evaluation mode and tries it on random images.
    """
    name = find_head(model)
    head = model.get_submodule(name)
    if not isinstance(head, nn.Linear) or head.bias is None:
        rule = f"needs a network whose last layer is linear with a bias, and {plan.name} has {name}"
        raise build_settings_error(Fault("train_layers", rule))
    outputs: list[Tensor] = []
    shape_NCHW = (_TRIED, plan.in_channels, plan.image_size, plan.image_size)
    x_NCHW = torch.randn(shape_NCHW, generator=torch.Generator().manual_seed(0)).to(
        head.weight
    )
    hook = head.register_forward_hook(
        lambda _module, _inputs, output: outputs.append(output)
    )
    try:
        with torch.no_grad(), seed_generators(0, head.weight.device), hook:
            logits = model.eval()(x_NCHW)
    except Exception as error:  # a custom network may raise any type
        if is_out_of_memory(error):
            raise
        rule = f"cannot take images of {plan.shape} ({format_error(error)})"
        raise plan.build_error(rule) from error
    if len(outputs) != 1 or not torch.equal(outputs[0], logits):
        rule = (
            f"needs a network that returns the output of its last layer, and {plan.name} returns "
            f"something else than that of {name!r}: register the layer of the logits last, or "
            "train all layers"
        )
        raise build_settings_error(Fault("train_layers", rule))
