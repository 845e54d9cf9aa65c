"""The stages of a model, the shapes of their outputs, their parameters, and a step's seconds."""

# N batch, C channels, H W pixels

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import seeded
from tuner.vision.new_model import FEW, fit_in, set_layout, without_gradient
from tuner.vision.precision import precision_for
from tuner.vision.settings import ClassifierSettings
from tuner.vision.transfer import matching

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_MIB = 1 << 20
_TIMED = 5  # steps
_STAGE = ("name", "kind", "output", "parameters")  # of a part of a model


def summary_of(plan: Blueprint, *, frozen: tuple[str, ...] = ()) -> dict[str, Any]:
    """{stages, parameters, trainable, mib, unused} of the model that `plan` builds.

    stages: {name, kind, output, parameters} of each part; output: the shape of its tensor for one
    blank image, () if it gives none. parameters, trainable: their numbers. mib: their memory.
    unused: the names of those that no gradient reaches, of a foreign network. frozen: patterns of
    parameters that do not train, as in the setting `freeze`. Raises SpecError for a foreign network
    that cannot be built or trained.
    """
    with seeded(0):
        model = plan.initial()
    unused: list[str] = []
    if plan.info.foreign:
        fit_in(model, plan, context=nullcontext)
        unused = without_gradient(model, plan, context=nullcontext)
    still = matching(model, frozen)
    parameters = dict(model.named_parameters())
    return {
        "stages": [dict(zip(_STAGE, stage, strict=True)) for stage in _stages(model, plan)],
        "parameters": sum(p.numel() for p in parameters.values()),
        "trainable": sum(p.numel() for n, p in parameters.items() if n not in still),
        "mib": sum(p.numel() * p.element_size() for p in parameters.values()) / _MIB,
        "unused": [name for name in unused if name not in still],
    }


def _stages(model: nn.Module, plan: Blueprint) -> Iterator[tuple[object, ...]]:
    parts = dict(_parts(model))
    shapes = _shapes(model, plan, parts)
    counted: set[int] = set()
    for name in sorted(parts, key=lambda name: name not in shapes):  # called parts first
        part = parts[name]
        own = [p for p in part.parameters() if id(p) not in counted]
        counted |= {*map(id, own)}
        count = sum(p.numel() for p in own)
        yield name, type(part).__name__, shapes.get(name, ()), count
    remaining = sum(p.numel() for p in model.parameters() if id(p) not in counted)
    if remaining:
        yield "", "its own parameters", (), remaining


def _parts(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The children of a model; those of its containers, and of an only child, in their place."""
    children = list(model.named_children())
    for name, child in children:
        is_opened = isinstance(child, _CONTAINERS) or len(children) == 1
        if is_opened and any(True for _ in child.children()):
            yield from _parts(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def _shapes(
    model: nn.Module, plan: Blueprint, parts: dict[str, nn.Module]
) -> dict[str, tuple[int, ...]]:
    """The shape of each part's output for an image, in the order of the calls."""
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, module: nn.Module, inputs: object, output: object) -> None:
        shapes.setdefault(name, tuple(output.shape[1:]) if isinstance(output, Tensor) else ())

    for name, part in parts.items():
        part.register_forward_hook(partial(note, name))
    with torch.no_grad(), seeded(0):
        model.eval()(torch.zeros(FEW, plan.in_channels, plan.image_size, plan.image_size))
    return shapes


def step_s(plan: Blueprint, settings: ClassifierSettings, *, threads: int, gpu: bool) -> float:
    """The seconds of a training step on blank images, here: the median of a few, after one more.

    threads: of a trial, on a CPU. Raises SpecError for a network that cannot be built.
    """
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    precision = precision_for(settings, device)
    with seeded(0):
        model = plan.initial().to(device).train()
    set_layout(model, plan, precision)
    shape = (settings.batch_size, plan.in_channels, plan.image_size, plan.image_size)
    x_NCHW = torch.zeros(shape, device=device).contiguous(memory_format=torch.channels_last)
    labels_N = torch.zeros(settings.batch_size, dtype=torch.int64, device=device)
    before, times = torch.get_num_threads(), []
    torch.set_num_threads(threads)
    try:
        for _ in range(_TIMED + 1):
            started = time.perf_counter()
            with precision.applied(), precision.forward():
                loss = F.cross_entropy(model(x_NCHW), labels_N)
            loss.backward()
            loss.item()  # waits for a GPU
            times.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
    return median(times[1:])
