from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn

from tuner.vision.averages import Lookahead, WeightAverage
from tuner.vision.recipe import RecipeSettings


def tensors(model):
    return [*model.parameters(), *model.buffers()]


def test_weight_average_decay_grows_to_its_setting():
    weight = torch.zeros(2, dtype=torch.float64)
    average, expected = WeightAverage(lambda: [weight], decay=0.3), 0.0
    for n in range(6):
        weight.fill_(n + 1)
        average.update()
        decay = min(0.3, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * (n + 1)
        with average.applied():
            assert weight.tolist() == pytest.approx([expected] * 2)
        assert weight.tolist() == [n + 1] * 2
    assert (1 + 3) / (10 + 3) > 0.3 > (1 + 2) / (10 + 2)


def test_weight_average_restores_the_weights_after_an_error():
    weight = torch.ones(1)
    average = WeightAverage(lambda: [weight], decay=0.5)
    weight.fill_(2)

    def fail():
        with average.applied():
            assert weight.item() == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert weight.item() == 2


@pytest.mark.parametrize("decay", [0.9, 0])
def test_weight_average_begins_again_or_keeps_nothing_without_decay(decay):
    weight = torch.zeros(1)
    average = WeightAverage(lambda: [weight], decay=decay)
    average.update()
    weight.fill_(5)
    average.begin()
    assert average.updates == 0
    with average.applied():
        assert weight.item() == 5


def made(of, **settings):
    values = {"steps": 2, "decay": 0.8, "power": 0, **settings}
    prefixed = {f"lookahead_{name}": value for name, value in values.items()}
    return Lookahead(of, RecipeSettings(**prefixed), total=10)


@pytest.mark.parametrize("power", [0, 1, 3])
def test_lookahead_slow_weights_follow_the_formula(power):
    weight = torch.zeros(2, dtype=torch.float64)
    lookahead, slow, present = made(lambda: [weight], power=power), 0.0, 0.0
    for epoch in range(2):
        lookahead.begin()
        for step in range(1, 6):
            done = 5 * epoch + step
            weight += 1  # what the optimizer does
            present += 1
            lookahead.update(done, last=step == 5)
            if step in (2, 4, 5):
                keep = 0.8 * (done / 10) ** power
                slow = present = keep * slow + (1 - keep) * present
            assert weight.tolist() == pytest.approx([present] * 2)
    assert weight.tolist() == pytest.approx([slow] * 2)


def evaluated(kind, of, change, *, updates=1):
    """The tensors as they are evaluated, after `change` and an update of half the distance."""
    if kind == "lookahead":
        averaged = made(of, steps=1, decay=0.5)
        averaged.begin()
        update, context = partial(averaged.update, 1, last=False), nullcontext()
    else:
        averaged = WeightAverage(of, decay=0.1)
        update, context = averaged.update, averaged.applied()
    change()
    for _ in range(updates):
        update()
    with context:
        return [tensor.clone() for tensor in of()]


@pytest.mark.parametrize(("kind", "share"), [("average", 0.9), ("lookahead", 0.5)])
def test_average_mixes_statistics_and_complex_weights_and_copies_counts(kind, share):
    norm = nn.BatchNorm1d(2)
    norm.spectrum = nn.Parameter(torch.zeros(1, dtype=torch.complex64), requires_grad=False)

    def train():
        norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
        norm.spectrum.fill_(10j)

    _, _, spectrum, mean, _, count = evaluated(kind, partial(tensors, norm), train)
    assert torch.allclose(mean, share * torch.tensor([0.2, 0.4]))
    assert spectrum.item() == pytest.approx(10j * share)
    assert count == 1


@pytest.mark.parametrize("kind", ["average", "lookahead"])
def test_average_of_unchanged_tensors_keeps_them_bit_for_bit(kind):
    weight = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    before = weight.clone()
    assert torch.equal(evaluated(kind, lambda: [weight], lambda: None, updates=20)[0], before)
