import math
from functools import partial

import pytest
import torch
from torch import nn

from tuner.errors import SpecError
from tuner.vision.optimizer import (
    LRSchedule,
    build_optimizer,
    count_layer_depths,
    find_hidden_weights,
)
from tuner.vision.settings import ClassifierSettings


def layers():
    first = nn.Conv2d(1, 4, 3)
    last = nn.Linear(6, 2)
    hidden = nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 1)
    return nn.Sequential(first, *hidden, nn.AdaptiveMaxPool2d(1), nn.Flatten(), last)


HIDDEN = {"1.weight", "3.weight"}


def test_hidden_weights_leaves_out_first_and_last_layers():
    assert find_hidden_weights(layers()) == HIDDEN
    embedded = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    assert find_hidden_weights(embedded) == {"1.weight"}
    assert find_hidden_weights(nn.Linear(2, 2)) == frozenset()


def set_gradients(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_muon_treats_each_filter_as_a_row(layout):
    torch.manual_seed(0)
    model = layers().to(memory_format=layout)
    matrix = nn.Parameter(model[1].weight.detach().flatten(1).clone())
    rates = {"muon_lr": 0.1, "muon_momentum": 0.8, "weight_decay": 0.01}
    optimizer = build_optimizer(ClassifierSettings(optimizer="muon", **rates), model)
    reference = torch.optim.Muon([matrix], lr=0.1, momentum=0.8, weight_decay=0.1)
    for step in range(3):
        set_gradients(model, step)
        matrix.grad = model[1].weight.grad.flatten(1).clone()
        optimizer.step()
        reference.step()
        assert torch.equal(model[1].weight.flatten(1), matrix)


def test_muon_leaves_other_layers_to_sgd():
    torch.manual_seed(0)
    ours = layers()
    theirs = layers()
    theirs.load_state_dict(ours.state_dict())
    same = {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.01}
    for model, name in ((ours, "muon"), (theirs, "sgdw")):
        optimizer = build_optimizer(ClassifierSettings(optimizer=name, **same), model)
        set_gradients(model, 0)
        optimizer.step()
    states = zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True)
    differ = {name for (name, own), value in states if not torch.equal(own, value)}
    assert differ == HIDDEN


def test_build_optimizer_muon_without_hidden_layers_raises(snapshot):
    with snapshot.raises(SpecError):
        build_optimizer(ClassifierSettings(optimizer="muon"), nn.Linear(2, 2))


SCHEDULES = ["constant", "cosine", "step", "one_cycle", "triangular"]


def rates(schedule, *, steps, taken, **more):
    settings = ClassifierSettings(lr=0.5, lr_schedule=schedule, **more)
    optimizer = build_optimizer(settings, nn.Linear(1, 1))
    lr_schedule = LRSchedule(settings, optimizer, steps=steps)
    return [lr_schedule.apply(step) for step in range(taken)]


RECIPES = [
    *({"schedule": name, "warmup_epochs": w} for name in SCHEDULES for w in (0, 8)),
    {"schedule": "step", "epochs": 4, "lr_steps": [1, 3.5], "lr_step_factor": 0.5},
    {"schedule": "step", "warmup_epochs": 2, "lr_steps": [1], "lr_step_factor": 0.2},
]


def test_lr_schedule_has_these_rates(snapshot):
    for recipe in RECIPES:
        got = rates(**recipe, steps=20, taken=20)
        snapshot(f"{recipe}\n{' '.join(f'{rate:.3f}' for rate in got)}")


def test_one_cycle_does_not_rise_in_a_single_step():
    cycle = partial(rates, "one_cycle", warmup_epochs=0.1)
    assert cycle(steps=2, taken=2) == pytest.approx([0.02, 0.5])
    assert cycle(steps=3, taken=3) == pytest.approx([0.02, 0.5, 2e-6])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("warmup_epochs", [0, 9.9])
def test_lr_schedule_beyond_its_end_keeps_the_last_rate(schedule, steps, warmup_epochs):
    got = rates(schedule, steps=steps, taken=steps + 3, warmup_epochs=warmup_epochs)
    assert got[steps:] == [got[steps - 1]] * 3
    assert 0 < max(got) <= 0.5


def after(gradients, **settings):
    """The weight 1 after a step on each of the gradients."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    optimizer = build_optimizer(ClassifierSettings(**settings), model)
    for gradient in gradients:
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
    return model.weight.item()


def test_sgd_follows_nesterov():
    # d = g + m * v with v = g at first: 0.1 * 1.9, then v = 0.9, d = 0.81
    moved = after((1.0, 0.0), lr=0.1, weight_decay=0, momentum=0.9)
    assert moved == pytest.approx(1 - 0.19 - 0.081)


@pytest.mark.parametrize(("name", "weight"), [("sgd", 0.999), ("sgdw", 0.99)])
def test_only_sgdw_decays_alike_at_any_lr(name, weight):
    decayed = after([0.0], optimizer=name, momentum=0, weight_decay=0.01, lr=0.1)
    assert decayed == pytest.approx(weight)


def network():
    """Norms of three kinds, the last over three dimensions, and a parameter that is no bias."""
    norms = nn.BatchNorm2d(2), nn.GroupNorm(1, 2), nn.LayerNorm([2, 3, 3])
    model = nn.Sequential(nn.Conv2d(1, 2, 1), *norms, nn.Linear(2, 1))
    model.register_parameter("temperature", nn.Parameter(torch.ones(())))
    return model


def test_sgd_has_no_momentum_after_a_first_step_that_overflows(monkeypatch):
    """torch's fused SGD leaves it as the memory was."""
    monkeypatch.setattr(
        torch, "empty_like", lambda like: torch.full_like(like, math.nan)
    )
    model = nn.Linear(2, 1)
    optimizer = build_optimizer(ClassifierSettings(), model)
    scaler = torch.amp.GradScaler("cpu")
    for gradient in (math.inf, 1.0):
        model.weight.grad = torch.full_like(model.weight, gradient)
        scaler.scale(torch.ones(()))
        scaler.step(optimizer)
        scaler.update()
    assert model.weight.isfinite().all()


OFF = {"lr": 0.5, "weight_decay": 0.1, "decay_norms_and_biases": False}


@pytest.mark.parametrize(
    ("settings", "frozen"),
    [
        *(({"optimizer": name, **OFF}, set()) for name in ("sgd", "sgdw", "adamw")),
        (OFF, {"0.weight", "0.bias"}),
        ({"optimizer": "adamw", "lr": 0.1, "layer_decay": 0.5}, set()),
    ],
)
def test_groups_have_these_rates_and_decays(snapshot, settings, frozen):
    model = network()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer = build_optimizer(ClassifierSettings(**settings), model, frozen=frozen)
    for group in optimizer.param_groups:
        listed = [names[id(parameter)] for parameter in group["params"]]
        snapshot(
            f"lr {group['lr']:.4g}, weight decay {group['weight_decay']:.4g}: {listed}"
        )


class Transformer(nn.Module):
    """The parts of torchvision's vision transformer, in its order."""

    def __init__(self):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, 4, 2)
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 4, 4))
        self.encoder.layers = nn.Sequential()
        for number in range(3):
            block = nn.ModuleDict({"ln_1": nn.LayerNorm(4), "mlp": nn.Linear(4, 4)})
            self.encoder.layers.add_module(f"encoder_layer_{number}", block)
        self.encoder.ln = nn.LayerNorm(4)
        self.heads = nn.ModuleDict({"head": nn.Linear(4, 2)})


def test_depths_of_a_last_norm_and_of_layers_within_blocks(snapshot):
    dense = nn.Module()
    dense.features = nn.ModuleDict({"conv0": nn.Conv2d(3, 4, 1)})
    dense.features["denseblock1"] = nn.ModuleDict(
        {f"denselayer{n}": nn.ModuleDict({"conv1": nn.Conv2d(4, 4, 1)}) for n in (1, 2)}
    )
    dense.classifier = nn.Linear(4, 2)
    for model in (Transformer(), dense):
        depths = count_layer_depths(model)
        snapshot("\n".join(f"{depth} {name}" for name, depth in depths.items()))
