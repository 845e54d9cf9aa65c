"""The optimizers and the learning rate schedules that the settings name.

Muon: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; for the weights
of hidden layers, beside SGD for all other parameters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from tuner.errors import Fault
from tuner.trial.torch_compat import build_eager_class
from tuner.vision.norms import NORMS
from tuner.vision.recipe import MUON_LR, MUON_MOMENTUM, STEP_FACTOR, STEPS
from tuner.vision.settings import ClassifierSettings, build_settings_error

Group = dict[str, Any]
_FIRST = 0.2
_PEAK = 0.25
_LAST = 0.05  # of triangular: first rate, position of the peak, last rate
# See `_parse_layer`
_NUMBERED = re.compile(r"([^.]+\.)*?[^.]*\d(\.\d+|\.[^.]*layer\d+)*(?=\.)")
_FILTERED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def find_hidden_weights(model: nn.Module) -> frozenset[str]:
    """The names of the weights of all convolutions and linear layers but the first and the last."""
    weighted = [
        (name, layer)
        for name, layer in model.named_modules()
        if getattr(getattr(layer, "weight", None), "ndim", 0) >= 2
    ]
    hidden = [name for name, layer in weighted[1:-1] if isinstance(layer, _FILTERED)]
    return frozenset(f"{name}.weight" if name else "weight" for name in hidden)


class MuonBesideSGD(Optimizer):
    """torch's Muon, which takes only matrices, for filters, and SGD for the other parameters.

    Each filter is a row of its matrix. SGD's groups come first; both optimizers share one `state`,
    by parameter.
    """

    def __init__(
        self, sgd: Optimizer, muon: Optimizer, filters: Sequence[Group]
    ) -> None:
        self._sgd = sgd
        self._muon = muon
        groups = [{**muon.defaults, **group} for group in filters]
        super().__init__([*sgd.param_groups, *groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        others = len(self._sgd.param_groups)
        # Loading a state replaces the groups and the state
        self._sgd.state = self.state
        self._sgd.param_groups = self.param_groups[:others]
        self._sgd.step()
        pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        for own, group in zip(
            self._muon.param_groups, self.param_groups[others:], strict=True
        ):
            own.update(
                {name: value for name, value in group.items() if name != "params"}
            )
            pairs += zip(own["params"], group["params"], strict=True)
        trained = [
            (matrix, weight) for matrix, weight in pairs if weight.grad is not None
        ]
        for matrix, weight in trained:
            assert weight.grad is not None
            # A view, or a copy where the channels come last in memory
            matrix.data = weight.detach().flatten(1)
            matrix.grad = weight.grad.flatten(1)
            self._muon.state[matrix] = self.state[weight]
        self._muon.step()
        for matrix, weight in trained:
            if matrix.data_ptr() != weight.data_ptr():
                weight.copy_(matrix.view_as(weight))
            matrix.grad = None


def build_optimizer(
    settings: ClassifierSettings, model: nn.Module, *, frozen: Collection[str] = ()
) -> Optimizer:
    """SGD with Nesterov momentum, SGD with decoupled weight decay, AdamW, or Muon.

    AdamW has `momentum` as its beta1. "sgdw" divides the decay by `lr`, so that either setting
    leaves the other's effect as it is (after Loshchilov & Hutter 2019, section 3). "muon" does the
    same, and is "sgdw" for all but the weights of hidden layers. `frozen` names parameters that may
    train later. To be built and used within `torch_compat.bypass_compiler`, unless
    `settings.compile`. Raises SpecError if "muon" has nothing to train.
    """
    momentum = settings.momentum
    weight_decay = settings.weight_decay
    others, filters = _build_groups(settings, model, frozen)
    nesterov = settings.optimizer != "adamw" and momentum > 0
    own: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov}
    kind: Any = SGD
    if settings.optimizer == "adamw":
        kind = AdamW
        own = {"betas": (momentum, 0.999)}
    if settings.optimizer in ("sgdw", "muon"):
        for group in others + filters:
            group.setdefault("weight_decay", weight_decay / group["lr"])
    # Complex ones are refused
    fused = all(p.is_floating_point() for p in model.parameters())
    kinds = [kind, torch.optim.Muon] if settings.optimizer == "muon" else [kind]
    first, *muon = kinds if settings.compile else map(build_eager_class, kinds)
    sgd: Optimizer = first(
        others, lr=settings.lr, weight_decay=weight_decay, fused=fused, **own
    )
    if nesterov:
        sgd.register_step_pre_hook(_begin_momentum)
    if not muon:
        return sgd
    if not filters:
        rule = (
            "'muon' needs a hidden convolution or linear layer, and the model has none"
        )
        raise build_settings_error(Fault("optimizer", rule, settings.model))
    matrices = [
        {
            **group,
            "params": [nn.Parameter(w.detach().flatten(1)) for w in group["params"]],
        }
        for group in filters
    ]
    set_to = settings.muon_momentum
    momentum = MUON_MOMENTUM if set_to is None else set_to
    return MuonBesideSGD(sgd, muon[0](matrices, momentum=momentum), filters)


def _begin_momentum(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    """Give SGD a momentum of 0 for parameters with their first gradient; the step is the same.

    torch 2.13's fused SGD raises TypeError if only some of a group have a momentum, and leaves it
    uninitialised if `GradScaler` skips the first step.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter not in optimizer.state and parameter.grad is not None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(
                    parameter
                )


def _build_groups(
    settings: ClassifierSettings, model: nn.Module, frozen: Collection[str]
) -> tuple[list[Group], list[Group]]:
    """Groups of one rate, one decay, and one epoch from which they train; Muon's come second."""
    undecayed = (
        frozenset() if settings.decay_norms_and_biases else find_norms_and_biases(model)
    )
    hidden = find_hidden_weights(model) if settings.optimizer == "muon" else frozenset()
    depths = count_layer_depths(model) if settings.layer_decay < 1 else {}
    groups: dict[tuple[bool, int, bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        kind = (
            name in hidden,
            depths.get(name, 0),
            name in undecayed,
            name in frozen,
        )
        groups.setdefault(kind, []).append(parameter)
    both: tuple[list[Group], list[Group]] = [], []
    for kind in sorted(groups):  # first the group of the head: its rate is reported
        is_hidden, depth, is_undecayed, _ = kind
        rate = settings.lr
        if is_hidden:
            rate = settings.muon_lr or MUON_LR
        rate *= settings.layer_decay**depth
        group: Group = {"params": groups[kind], "lr": rate}
        if is_undecayed:
            group["weight_decay"] = 0.0
        both[is_hidden].append(group)
    return both


def count_layer_depths(model: nn.Module) -> dict[str, int]:
    """The number of layers between each parameter and the output; 0 for the head.

    A layer is a numbered part of the network, such as `layer1.0` or `blocks.11`, or a module with
    weights before or after them. Norm layers count with the layer before them. Layer-wise rates:
    Howard & Ruder 2018, "Universal Language Model Fine-tuning", section 3.2.
    """
    parameters = dict(model.named_parameters())
    weighted = {_parse_layer(name) for name, p in parameters.items() if p.ndim > 1}
    numbers: dict[str, int] = {}
    number = 0
    for name in parameters:
        layer = _parse_layer(name)
        if layer not in numbers and layer in weighted:
            number += 1
        numbers.setdefault(layer, number)
    return {name: number - numbers[_parse_layer(name)] for name in parameters}


def _parse_layer(parameter: str) -> str:
    """The module of a parameter up to its first number, and the numbers that follow it.

    A block's number may be followed by that of a layer within it, as in densenets.

    >>> [_parse_layer(n) for n in ("layer1.0.conv1.weight", "conv1.weight", "encoder.layers.2.a.b")]
    ['layer1.0', 'conv1', 'encoder.layers.2']
    >>> [_parse_layer(n) for n in ("block1.denselayer2.conv1.weight", "encoder.ln.weight")]
    ['block1.denselayer2', 'encoder.ln']
    """
    numbered = _NUMBERED.match(parameter)
    return numbered[0] if numbered else parameter.rpartition(".")[0]


def find_norms_and_biases(model: nn.Module) -> frozenset[str]:
    """The names of norms' parameters and other vectors: He et al. 2019, "Bag of Tricks", 3.1."""
    return frozenset(
        f"{name}.{own}" if name else own
        for name, module in model.named_modules()
        for own, parameter in module.named_parameters(recurse=False)
        if isinstance(module, NORMS) or own.endswith("bias") or parameter.ndim <= 1
    )


class LRSchedule:
    """The rate of each group at each of `steps` steps; the largest is the group's own."""

    def __init__(
        self, settings: ClassifierSettings, optimizer: Optimizer, *, steps: int
    ) -> None:
        self._optimizer = optimizer
        self._last = steps - 1
        self._largest = [group["lr"] for group in optimizer.param_groups]
        self._share = _build_schedule(settings, steps)

    def apply(self, step: int) -> float:
        """Set the rates of a step, from 0; returns the first group's. Beyond the end they stay."""
        groups = self._optimizer.param_groups
        share = self._share(min(step, self._last))
        for group, largest in zip(groups, self._largest, strict=True):
            group["lr"] = share * largest
        return float(groups[0]["lr"])


def _build_schedule(settings: ClassifierSettings, steps: int) -> Callable[[int], float]:
    warmup = 0
    if settings.warmup_epochs:
        warmup = max(1, round(settings.warmup_epochs * steps / settings.epochs))
    if settings.lr_schedule == "one_cycle":
        rise = max(warmup, 2) if warmup else 0.3 * max(steps, 2)  # not in a single step
        return partial(_one_cycle, peak=rise - 1, last=max(steps, 2) - 1)
    if settings.lr_schedule == "triangular":
        peak = warmup / max(steps - 1, 1) or _PEAK
        return partial(_triangular, steps=steps, peak=peak)
    # Constant
    share: Callable[[int], float] = partial(_decay_stepwise, falls=(), by=1.0)
    if settings.lr_schedule == "cosine":
        share = partial(_cosine, start=warmup, end=steps)
    elif settings.lr_schedule == "step":
        epochs = settings.lr_steps or [part * settings.epochs for part in STEPS]
        falls = [round(epoch * steps / settings.epochs) for epoch in epochs]
        share = partial(
            _decay_stepwise, falls=falls, by=settings.lr_step_factor or STEP_FACTOR
        )
    return partial(_warm_up, warmup=warmup, then=share)


def _warm_up(step: int, *, warmup: int, then: Callable[[int], float]) -> float:
    """Linear up to the rate of `then` in `warmup` steps: Goyal et al. 2017, section 2.2."""
    if step < warmup:
        return (step + 1) / (warmup + 1) * then(warmup)
    return then(step)


def _cosine(step: int, *, start: float, end: float) -> float:
    """Half a cosine from 1 at `start` to 0 at `end`: Loshchilov & Hutter 2017, equation 5."""
    angle = math.pi * (step - start) / max(end - start, 1)
    return (1 + math.cos(angle)) / 2


def _one_cycle(step: int, *, peak: float, last: int) -> float:
    """A cosine from 1/25 up to 1 at `peak`, and down to 4e-6: Smith & Topin 2018, as in torch."""
    if step <= peak:
        return 1 - (1 - 1 / 25) * _cosine(step, start=0, end=peak)
    return 4e-6 + (1 - 4e-6) * _cosine(step, start=peak, end=last)


def _decay_stepwise(step: int, *, falls: Sequence[int], by: float) -> float:
    """`by` to the power of the number of past `falls`: He et al. 2016, section 4.2."""
    return by ** sum(fall <= step for fall in falls)


def _triangular(step: int, *, steps: int, peak: float) -> float:
    """Linear from 0.2 of the rate up to all of it at `peak` of `steps`, then down to 0.05."""
    at = step / max(steps - 1, 1)
    if at < peak:
        return _FIRST + (1 - _FIRST) * at / peak
    fall = max(1 - peak, 1 / steps)
    return 1 - (1 - _LAST) * (at - peak) / fall
