"""The optimizer and the learning rate schedule that the settings name."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR

from tuner.classifier.settings import ClassifierSettings
from tuner.trial.torch_compat import eager

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_FIRST, _PEAK, _LAST = 0.2, 0.25, 0.05  # rate at the start, place of the peak, rate at the end


def build_optimizer(
    settings: ClassifierSettings, model: nn.Module, *, frozen: Collection[str] = ()
) -> Optimizer:
    """SGD with Nesterov momentum, SGD with decoupled weight decay, or AdamW.

    AdamW has `momentum` as its beta1, so that each setting means something with every optimizer.
    "sgdw" divides the decay by `lr`: changing one leaves the other's effect as it is (after
    Loshchilov & Hutter 2019, section 3). `frozen` names parameters that may train later. To be
    built and used within `torch_compat.without_compiler`, unless `settings.compile`.
    """
    momentum, weight_decay = settings.momentum, settings.weight_decay
    groups = _groups(settings, model, frozen)
    own: dict[str, Any] = {"momentum": momentum, "nesterov": momentum > 0}
    kind: Any = SGD
    if settings.optimizer == "adamw":
        kind, own = AdamW, {"betas": (momentum, 0.999)}
    if settings.optimizer == "sgdw":
        for group in groups:
            group["weight_decay"] = weight_decay / group["lr"]
    if not settings.compile:
        kind = eager(kind)
    optimizer: Optimizer = kind(
        groups, lr=settings.lr, weight_decay=weight_decay, fused=True, **own
    )
    return optimizer


def _groups(
    settings: ClassifierSettings, model: nn.Module, frozen: Collection[str]
) -> list[dict[str, Any]]:
    """Parameters that share a learning rate and the epoch from which they train.

    torch's fused SGD cannot begin with some of a group later, so what is frozen has groups apart.
    """
    biases = {
        f"{name}.bias"
        for name, module in model.named_modules()
        if isinstance(module, (*BATCH_NORMS, nn.GroupNorm))
    }
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        fast = settings.norm_bias_lr != 1 and name in biases
        groups.setdefault((fast, name in frozen), []).append(parameter)
    return [
        {"params": groups[key], "lr": settings.lr * (settings.norm_bias_lr if key[0] else 1)}
        for key in sorted(groups)  # the slow ones first: their rate is the one that is reported
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
    return LambdaLR(optimizer, lambda _step: 1.0)


def next_lr(schedule: LRScheduler, *, steps: int) -> float:
    """Move on to the next optimizer step's rate; returns the rate of the step just done.

    After `steps` steps, where the schedules end, it stays at the last one's.
    """
    used = float(schedule.get_last_lr()[0])
    if schedule.last_epoch < steps - 1:
        schedule.step()
    return used


def _triangular(step: int, *, steps: int) -> float:
    """Linear from 0.2 of the rate up to all of it at a quarter of `steps`, then down to 0.05."""
    at = step / max(steps - 1, 1)
    if at < _PEAK:
        return _FIRST + (1 - _FIRST) * at / _PEAK
    return 1 - (1 - _LAST) * (at - _PEAK) / (1 - _PEAK)
