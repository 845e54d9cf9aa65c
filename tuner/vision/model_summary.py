"""What `tuner validate` shows of a model: its stages, its parameters, and the time of a step."""

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

from tuner.vision.blueprint import Blueprint
from tuner.vision.epochs import seed_generators
from tuner.vision.freezing import match_parameters
from tuner.vision.new_model import (
    FEW,
    create_blank_images,
    find_unused_parameters,
    set_layout,
)
from tuner.vision.precision import Precision, choose_precision
from tuner.vision.settings import ClassifierSettings

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_MIB = 1 << 20
_TIMED = 6  # steps


def summarize_model(plan: Blueprint, *, frozen: tuple[str, ...]) -> dict[str, Any]:
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
    for name in sorted(parts, key=lambda name: name not in shapes):
        # Called parts first
        part = parts[name]
        output = shapes.get(name, ())
        own = [p for p in part.parameters() if id(p) not in counted]
        counted |= {*map(id, own)}
        count = sum(p.numel() for p in own)
        yield {
            "name": name,
            "kind": type(part).__name__,
            "output": output,
            "parameters": count,
        }
    if remaining := sum(p.numel() for p in model.parameters() if id(p) not in counted):
        yield {
            "name": "",
            "kind": "its own parameters",
            "output": (),
            "parameters": remaining,
        }


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

    def record_shape(
        name: str, module: nn.Module, inputs: object, output: object
    ) -> None:
        shapes.setdefault(
            name, tuple(output.shape[1:]) if isinstance(output, Tensor) else ()
        )

    for name, part in parts.items():
        part.register_forward_hook(partial(record_shape, name))
    with torch.no_grad(), seed_generators(0):
        model.eval()(create_blank_images(plan, model, FEW))
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
    x_NCHW = create_blank_images(plan, model, settings.batch_size)
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
