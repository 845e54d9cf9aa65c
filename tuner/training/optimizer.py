"""The optimizer and the learning rate schedule that the settings name."""

from __future__ import annotations

from torch import nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR

from tuner.training.catalog import ClassifierSettings


def build_optimizer(settings: ClassifierSettings, model: nn.Module) -> Optimizer:
    """SGD with Nesterov momentum, or AdamW with `momentum` as its beta1.

    So each setting means something with either, and one space can search over both.
    """
    momentum, weight_decay = settings.momentum, settings.weight_decay
    if settings.optimizer == "adamw":
        return AdamW(
            model.parameters(),
            lr=settings.lr,
            betas=(momentum, 0.999),
            weight_decay=weight_decay,
            fused=True,
        )
    return SGD(
        model.parameters(),
        lr=settings.lr,
        momentum=momentum,
        nesterov=momentum > 0,
        weight_decay=weight_decay,
        fused=True,
    )


def build_lr_schedule(
    settings: ClassifierSettings, optimizer: Optimizer, *, steps: int
) -> LRScheduler:
    """The schedule over `steps` optimizer steps, stepped once each; its largest rate is `lr`."""
    if settings.lr_schedule == "cosine":
        return CosineAnnealingLR(optimizer, T_max=steps)
    if settings.lr_schedule == "one_cycle":
        # Its own default cycles the momentum, which would make the setting mean nothing.
        return OneCycleLR(
            optimizer, max_lr=settings.lr, total_steps=max(steps, 2), cycle_momentum=False
        )
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
