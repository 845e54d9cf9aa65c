"""The initial model of a trial: drawn with the trial's seed, and ready for its images.

A custom network is tried on blank images first, so that its faults are reported before it trains.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call

from tuner.errors import Fault
from tuner.trial.failures import format_error, is_out_of_memory
from tuner.vision.blueprint import Blueprint
from tuner.vision.collectives import Ranks
from tuner.vision.epochs import seed_generators
from tuner.vision.precision import Precision, cast_weights, choose_dtype
from tuner.vision.settings import ClassifierSettings, build_settings_error
from tuner.wording import format_amount, summarize_names

FEW = 2  # images, so that BatchNorm has values to normalise
_ROUNDING = 1e-5  # error of a sum of probabilities in float32; more in half precision


def set_layout(model: nn.Module, plan: Blueprint, precision: Precision) -> None:
    """Lay out the memory of `model` with the channels last, as the images have them, if possible.

    It is not for a network that flattens with `view`: that gets its images with the channels first.
    Called on the final device and in the final dtype. Raises SpecError for a foreign network that
    does not map x_NCHW to logits_NK, in training or in evaluation.
    """
    # torch has the argument, its stubs do not
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if not plan.info.foreign:
        return
    rule, error = _find_refusal(model, plan, precision)
    if rule:
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        model.register_forward_pre_hook(_move_channels_first)
        rule, error = _find_refusal(model, plan, precision)
    if rule:
        raise plan.build_error(rule) from error


def find_unused_parameters(
    model: nn.Module, plan: Blueprint, precision: Precision
) -> list[str]:
    """The names of the trainable parameters that the logits do not depend on.

    Called after `set_layout`. Raises SpecError if the logits depend on trainable tensors that are
    no parameters of the model, such as layers in a plain list: neither the optimizer nor a
    checkpoint would have them.
    """
    with precision.apply_autocast():
        blank = create_blank_images(plan, model, FEW)
        output, _ = _run_model(model, blank, training=True, gradients=True)
    nodes = _list_graph_nodes(output) if isinstance(output, Tensor) else []
    if not nodes or any(isinstance(node, BackwardCFunction) for node in nodes):
        return []  # a Python function need not show what it depends on
    leaves = [getattr(node, "variable", None) for node in nodes]
    reached = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}
    parameters = {id(parameter) for parameter in model.parameters()}
    if strays := [leaf for number, leaf in reached.items() if number not in parameters]:
        raise plan.build_error(
            f"uses {format_amount(len(strays), 'tensor')} that would be neither trained nor "
            f"saved, as they are no parameters of it (the first is {_format_shape(strays[0])}): "
            "keep layers in attributes, nn.ModuleList or nn.ModuleDict, not in a list or a dict"
        )
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [name for name, p in trained if id(p) not in reached]


def find_logits_fault(output: object, count: int, num_classes: int) -> str | None:
    """Why a network's output for `count` images is not their logits, or None."""
    wanted = f"must return {count} x {num_classes} logits for {count} images"
    if not isinstance(output, Tensor):
        return f"{wanted}, not a {type(output).__name__}: auxiliary outputs must be switched off"
    if output.shape != (count, num_classes):
        return f"{wanted}, not {_format_shape(output)}"
    if not output.is_floating_point():
        return f"{wanted}, not values of {output.dtype}"
    if (output >= 0).all() and ((output.sum(1) - 1).abs() < _ROUNDING).all():
        return f"{wanted}, not probabilities, from which the loss would be wrong: omit the softmax"
    return None


def _find_refusal(
    model: nn.Module, plan: Blueprint, precision: Precision
) -> tuple[str | None, Exception | None]:
    """The rule that a network breaks, and the exception that it raises."""
    for training in (True, False):
        with precision.apply_autocast():
            # A new context each time: autocast caches the weights
            output, error = _run_model(
                model, create_blank_images(plan, model, FEW), training=training
            )
        if error is not None:
            return f"cannot take images of {plan.shape} ({format_error(error)})", error
        if fault := find_logits_fault(output, FEW, plan.num_classes):
            return fault, None
    return None, None


def create_blank_images(plan: Blueprint, model: nn.Module, count: int) -> Tensor:
    """Images with the strides that a batch of the data set has."""
    like = next(model.parameters(), torch.zeros(()))
    shape_NHWC = (count, plan.image_size, plan.image_size, plan.in_channels)
    return torch.zeros(shape_NHWC, dtype=like.dtype, device=like.device).permute(
        0, 3, 1, 2
    )


def _run_model(
    model: nn.Module, x_NCHW: Tensor, *, training: bool, gradients: bool = False
) -> tuple[object, Exception | None]:
    """(output, exception) of `model`; its buffers, its mode and its gradients stay."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    modes = {module: module.training for module in model.modules()}
    with seed_generators(0, x_NCHW.device), torch.set_grad_enabled(gradients):
        try:
            return functional_call(model.train(training), buffers, (x_NCHW,)), None
        except Exception as error:  # a custom network may raise any type
            if is_out_of_memory(error):
                raise
            return None, error
        finally:
            for module, is_training in modes.items():
                module.training = is_training


def _list_graph_nodes(output: Tensor) -> list[Any]:
    """Every node of the graph that a backward pass from `output` goes through."""
    nodes: dict[Any, None] = {}
    ahead = [output.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in nodes:
            nodes[node] = None
            ahead += [following for following, _ in node.next_functions]
    return list(nodes)


def _format_shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a single number"


def _move_channels_first(
    module: nn.Module, inputs: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    # `contiguous` would leave the strides of images with one channel
    return (inputs[0].clone(memory_format=torch.contiguous_format), *inputs[1:])


def create_model(
    settings: ClassifierSettings,
    plan: Blueprint,
    precision: Precision,
    ranks: Ranks,
    *,
    images: int,
    split: int,
) -> nn.Module:
    """The model of `plan` on its device, on the host if it is `split`. Raises SpecError.

    images: how many an epoch trains on.
    """
    with seed_generators(settings.seed):
        model = cast_weights(plan.initialize_model(), choose_dtype(settings))
    if split == 1:
        model.to(ranks.device)
    set_layout(model, plan, precision)
    if plan.info.foreign:
        unused = find_unused_parameters(model, plan, precision)
        if unused and ranks.rank == 0:
            print(
                f"warning: no gradient reaches {summarize_names(unused)} of {plan.name}"
            )
        last = images % settings.batch_size or settings.batch_size
        if min(settings.batch_size, last) // ranks.world_size <= 1:
            # BatchNorm cannot train on it once it has shrunk to one pixel, or is flattened
            error = _run_model(
                model, create_blank_images(plan, model, 1), training=True
            )[1]
            if error is not None:
                rule = "leaves a worker with 1 image of the last batch, which the model cannot take"
                fault = Fault(
                    "batch_size", f"{rule} ({format_error(error)})", settings.batch_size
                )
                raise build_settings_error(fault) from error
    return model
