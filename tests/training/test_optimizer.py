import math

import pytest
import torch
from torch import nn

from tuner.training.catalog import ClassifierSettings
from tuner.training.optimizer import build_lr_schedule, build_optimizer, next_lr


def rates(schedule, *, steps, taken):
    settings = ClassifierSettings(lr=0.5, lr_schedule=schedule)
    optimizer = build_optimizer(settings, nn.Linear(1, 1))
    lr_schedule = build_lr_schedule(settings, optimizer, steps=steps)
    used = []
    for _ in range(taken):
        in_optimizer = optimizer.param_groups[0]["lr"]
        optimizer.step()
        used.append(next_lr(lr_schedule, steps=steps))
        assert used[-1] == in_optimizer
    return used


def test_cosine_falls_from_lr_to_almost_zero():
    got = rates("cosine", steps=10, taken=10)
    expected = [0.25 * (1 + math.cos(math.pi * step / 10)) for step in range(10)]
    assert got == pytest.approx(expected)


def test_constant_stays():
    assert rates("constant", steps=3, taken=5) == [0.5] * 5


def test_one_cycle_rises_to_lr_and_falls():
    got = rates("one_cycle", steps=101, taken=101)
    assert max(got) == pytest.approx(0.5, rel=1e-3)
    assert got[0] < 0.03
    assert got[-1] < 1e-4
    peak = got.index(max(got))
    assert got[: peak + 1] == sorted(got[: peak + 1])
    assert got[peak:] == sorted(got[peak:], reverse=True)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "one_cycle"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_beyond_its_end_the_last_rate_stays(schedule, steps):
    got = rates(schedule, steps=steps, taken=steps + 3)
    assert got[steps:] == [got[steps - 1]] * 3


def one_step(**settings):
    """The weight 1 after one step on a gradient of 1 and another on 0."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    optimizer = build_optimizer(ClassifierSettings(lr=0.1, **settings), model)
    for gradient in (1.0, 0.0):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
    return model.weight.item()


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_every_setting_matters_to_either_optimizer(optimizer):
    base = one_step(optimizer=optimizer)
    assert one_step(optimizer=optimizer, momentum=0.5) != base
    assert one_step(optimizer=optimizer, weight_decay=0.3) != base


def test_sgd_is_nesterovs():
    # d = g + m * v with v = g at first: 0.1 * 1.9, then v = 0.9, d = 0.81
    got = one_step(optimizer="sgd", weight_decay=0, momentum=0.9)
    assert got == pytest.approx(1 - 0.19 - 0.081)


def test_sgd_without_momentum():
    assert one_step(optimizer="sgd", weight_decay=0, momentum=0) == pytest.approx(0.9)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_one_cycle_leaves_the_momentum(name):
    settings = ClassifierSettings(optimizer=name, momentum=0.7, lr_schedule="one_cycle")
    optimizer = build_optimizer(settings, nn.Linear(1, 1))
    schedule = build_lr_schedule(settings, optimizer, steps=10)
    for _ in range(5):
        group = optimizer.param_groups[0]
        assert group["momentum"] == 0.7 if name == "sgd" else group["betas"] == (0.7, 0.999)
        optimizer.step()
        next_lr(schedule, steps=10)
