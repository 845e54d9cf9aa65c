"""The initial model of a trial: drawn with the trial's seed, and ready for its images.

A custom network is tried on blank images first, so that its faults are reported before it trains.
A summary has the stages of a model, the shapes of their outputs, their parameters, and a step's
seconds.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call

from tuner.errors import Fault
from tuner.trial.failures import format_error, is_out_of_memory
from tuner.vision.blueprint import Blueprint
from tuner.vision.collectives import Ranks
from tuner.vision.epochs import seed_generators
from tuner.vision.precision import Precision, cast_weights, choose_dtype, choose_precision
from tuner.vision.settings import ClassifierSettings, build_settings_error
from tuner.vision.transfer import match_parameters
from tuner.wording import format_amount, summarize_names

FEW = 2  # images, so that BatchNorm has values to normalise

_ROUNDING = 1e-5  # error of a sum of probabilities in float32; more in half precision
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_MIB = 1 << 20
_TIMED = 6  # steps


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


def find_unused_parameters(model: nn.Module, plan: Blueprint, precision: Precision) -> list[str]:
    """The names of the trainable parameters that the logits do not depend on.

    Called after `set_layout`. Raises SpecError if the logits depend on trainable tensors that are
    no parameters of the model, such as layers in a plain list: neither the optimizer nor a
    checkpoint would have them.
    """
    with precision.apply_autocast():
        blank = _create_blank_images(plan, model, FEW)
        output, _ = _run_model(model, blank, training=True, gradients=True)
    nodes = _list_graph_nodes(output) if isinstance(output, Tensor) else []
    if not nodes or any(isinstance(node, BackwardCFunction) for node in nodes):
        return []  # a Python function need not show what it depends on
    leaves = [getattr(node, "variable", None) for node in nodes]
    reached = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}
    parameters = {id(parameter) for parameter in model.parameters()}
    if strays := [leaf for number, leaf in reached.items() if number not in parameters]:
        raise plan.build_error(
            f"uses {format_amount(len(strays), 'tensor')} that would be neither trained nor saved, "
            "as "
            f"they are no parameters of it (the first is {_format_shape(strays[0])}): keep layers "
            "in "
            "attributes, nn.ModuleList or nn.ModuleDict, not in a list or a dict"
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
        with precision.apply_autocast():  # a new context each time: autocast caches the weights
            output, error = _run_model(
                model, _create_blank_images(plan, model, FEW), training=training
            )
        if error is not None:
            return f"cannot take images of {plan.shape} ({format_error(error)})", error
        if fault := find_logits_fault(output, FEW, plan.num_classes):
            return fault, None
    return None, None


def _create_blank_images(plan: Blueprint, model: nn.Module, count: int) -> Tensor:
    """Images with the strides that a batch of the data set has."""
    like = next(model.parameters(), torch.zeros(()))
    shape_NHWC = (count, plan.image_size, plan.image_size, plan.in_channels)
    return torch.zeros(shape_NHWC, dtype=like.dtype, device=like.device).permute(0, 3, 1, 2)


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


def _move_channels_first(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
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
            print(f"warning: no gradient reaches {summarize_names(unused)} of {plan.name}")
        last = images % settings.batch_size or settings.batch_size
        if min(settings.batch_size, last) // ranks.world_size <= 1:
            # BatchNorm cannot train on it once it has shrunk to one pixel, or is flattened
            error = _run_model(model, _create_blank_images(plan, model, 1), training=True)[1]
            if error is not None:
                rule = "leaves a worker with 1 image of the last batch, which the model cannot take"
                fault = Fault("batch_size", f"{rule} ({format_error(error)})", settings.batch_size)
                raise build_settings_error(fault) from error
    return model


def summarize_model(plan: Blueprint, *, frozen: tuple[str, ...] = ()) -> dict[str, Any]:
    """{stages, parameters, trainable, mib, unused} of the model that `plan` builds.

    stages: {name, kind, output, parameters} of each part; output: the shape of its tensor for one
    blank image, () if it gives none. parameters, trainable: their numbers. mib: their memory.
    unused: the names of those that no gradient reaches, of a foreign network. frozen: patterns of
    parameters that do not train, as in the setting `freeze`. Raises SpecError for a foreign network
    that cannot be built or trained.
    """
    with seed_generators(0):
        model = plan.initialize_model()
    float32 = Precision("cpu")
    set_layout(model, plan, float32)
    unused = find_unused_parameters(model, plan, float32) if plan.info.foreign else []
    still = match_parameters(model, frozen)
    parameters = dict(model.named_parameters())
    return {
        "stages": list(_describe_stages(model, plan)),
        "parameters": sum(p.numel() for p in parameters.values()),
        "trainable": sum(p.numel() for n, p in parameters.items() if n not in still),
        "mib": sum(p.numel() * p.element_size() for p in parameters.values()) / _MIB,
        "unused": [name for name in unused if name not in still],
    }


def _describe_stages(model: nn.Module, plan: Blueprint) -> Iterator[dict[str, object]]:
    parts = dict(_walk_parts(model))
    shapes = _record_shapes(model, plan, parts)
    counted: set[int] = set()
    for name in sorted(parts, key=lambda name: name not in shapes):  # called parts first
        part = parts[name]
        output = shapes.get(name, ())
        own = [p for p in part.parameters() if id(p) not in counted]
        counted |= {*map(id, own)}
        count = sum(p.numel() for p in own)
        yield {"name": name, "kind": type(part).__name__, "output": output, "parameters": count}
    if remaining := sum(p.numel() for p in model.parameters() if id(p) not in counted):
        yield {"name": "", "kind": "its own parameters", "output": (), "parameters": remaining}


def _walk_parts(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The children of a model; those of its containers, and of an only child, in their place."""
    children = list(model.named_children())
    for name, child in children:
        is_opened = isinstance(child, _CONTAINERS) or len(children) == 1
        if is_opened and any(True for _ in child.children()):
            yield from _walk_parts(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _record_shapes(
    model: nn.Module, plan: Blueprint, parts: dict[str, nn.Module]
) -> dict[str, tuple[int, ...]]:
    """The shape of each part's output for an image, in the order of the calls."""
    shapes: dict[str, tuple[int, ...]] = {}

    def record_shape(name: str, module: nn.Module, inputs: object, output: object) -> None:
        shapes.setdefault(name, tuple(output.shape[1:]) if isinstance(output, Tensor) else ())

    for name, part in parts.items():
        part.register_forward_hook(partial(record_shape, name))
    with torch.no_grad(), seed_generators(0):
        model.eval()(_create_blank_images(plan, model, FEW))
    return shapes


def measure_step_s(
    plan: Blueprint, settings: ClassifierSettings, *, threads: int, gpu: bool
) -> float:
    """The seconds of a training step on blank images, here: the median of a few."""
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    precision = choose_precision(settings, device)
    with seed_generators(0):
        model = plan.initialize_model().to(device).train()
    set_layout(model, plan, precision)
    x_NCHW = _create_blank_images(plan, model, settings.batch_size)
    labels_N = torch.zeros(settings.batch_size, dtype=torch.int64, device=device)

    def run_step() -> None:
        with precision.apply(), precision.apply_autocast():
            loss = F.cross_entropy(model(x_NCHW), labels_N)
        loss.backward()
        loss.item()  # waits for a GPU

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return measure_median_s(run_step, times=_TIMED)
    finally:
        torch.set_num_threads(before)


def measure_median_s(run: Callable[[], object], *, times: int) -> float:
    """The median of the seconds of some runs, without the first third, which is slower."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return median(seconds[times // 3 :])
