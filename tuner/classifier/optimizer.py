"""The optimizer and the learning rate schedule that the settings name."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR

from tuner.classifier.settings import ClassifierSettings

_REMEMBERED = "__dynamo_disable"  # see torch/_compile.py
_NORMS = (_BatchNorm, nn.GroupNorm)


def build_optimizer(
    settings: ClassifierSettings, model: nn.Module, *, frozen: Collection[str] = ()
) -> Optimizer:
    """SGD with Nesterov momentum, SGD with decoupled weight decay, or AdamW.

    AdamW has `momentum` as its beta1, so that each setting means something with every optimizer.
    "sgdw" divides the decay by `lr`: changing one leaves the other's effect as it is (after
    Loshchilov & Hutter 2019, section 3). `frozen` names parameters that may train later.
    """
    momentum, weight_decay = settings.momentum, settings.weight_decay
    groups = _groups(settings, model, frozen)
    kind: Any = AdamW if settings.optimizer == "adamw" else SGD
    if not settings.compile:
        kind = _eager(kind)
    if settings.optimizer == "adamw":
        betas = (momentum, 0.999)
        adamw: Optimizer = kind(
            groups, lr=settings.lr, betas=betas, weight_decay=weight_decay, fused=True
        )
        return adamw
    if settings.optimizer == "sgdw":
        for group in groups:
            group["weight_decay"] = weight_decay / group["lr"]
    sgd: Optimizer = kind(
        groups,
        lr=settings.lr,
        momentum=momentum,
        nesterov=momentum > 0,
        weight_decay=weight_decay,
        fused=True,
    )
    return sgd


@cache
def _eager(kind: type[Optimizer]) -> type[Optimizer]:
    """The optimizer `kind` without torch's compiler, whose import takes almost as long as torch's.

    A first step imports it to tell it where not to compile, as do some methods, which remember the
    answer that they get; in code that is not compiled it is the method itself.
    """
    for method in vars(Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None and not hasattr(plain, _REMEMBERED):
            setattr(plain, _REMEMBERED, plain)
    return type(kind.__name__, (kind,), {"step": torch.no_grad()(inspect.unwrap(kind.step))})


def _groups(
    settings: ClassifierSettings, model: nn.Module, frozen: Collection[str]
) -> list[dict[str, Any]]:
    """Parameters that share a learning rate and the epoch from which they train.

    Apart by epoch because torch's fused SGD cannot begin with some of a group later.
    """
    biases = {
        f"{name}.bias" for name, module in model.named_modules() if isinstance(module, _NORMS)
    }
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        fast = settings.norm_bias_lr != 1 and name in biases
        groups.setdefault((fast, name in frozen), []).append(parameter)
    return [
        {"params": groups[key], "lr": settings.lr * (settings.norm_bias_lr if key[0] else 1)}
        for key in sorted(groups)  # the slow ones first: theirs is the rate that is reported
    ]


def build_lr_schedule(
    settings: ClassifierSettings, optimizer: Optimizer, *, steps: int
) -> LRScheduler:
    """The schedule over `steps` optimizer steps, stepped once each; its largest rate is `lr`."""
    if settings.lr_schedule == "cosine":
        return CosineAnnealingLR(optimizer, T_max=steps)
    if settings.lr_schedule == "one_cycle":
        # Its own default cycles the momentum, which would make the setting mean nothing.
        largest = [group["lr"] for group in optimizer.param_groups]
        return OneCycleLR(
            optimizer, max_lr=largest, total_steps=max(steps, 2), cycle_momentum=False
        )
    if settings.lr_schedule == "triangular":
        return LambdaLR(optimizer, partial(_triangular, steps=steps))
    return LambdaLR(optimizer, _constant)


def next_lr(schedule: LRScheduler, *, steps: int) -> float:
    """Move on to the next optimizer step's rate; returns the rate of the step just done.

    After `steps` steps, where the schedules end, it stays at the last one's.
    """
    used = float(schedule.get_last_lr()[0])
    if schedule.last_epoch < steps - 1:
        schedule.step()
    return used


def _constant(_step: int) -> float:
    return 1.0


_FIRST, _PEAK, _LAST = 0.2, 0.25, 0.05  # rate at the start, place of the peak, rate at the end


def _triangular(step: int, *, steps: int) -> float:
    """Linear from 0.2 of the rate up to all of it at a quarter of `steps`, then down to 0.05."""
    at = step / max(steps - 1, 1)
    if at < _PEAK:
        return _FIRST + (1 - _FIRST) * at / _PEAK
    return 1 - (1 - _LAST) * (at - _PEAK) / (1 - _PEAK)
