from functools import partial

import pytest
import torch
from torch import nn

from tuner.vision.averages import WeightAverage


def tensors(model):
    return [*model.parameters(), *model.buffers()]


def test_weight_average_decay_grows_to_its_setting():
    weight = torch.zeros(2, dtype=torch.float64)
    average = WeightAverage(lambda: [weight], decay=0.3)
    expected = 0.0
    for n in range(6):
        weight.fill_(n + 1)
        average.update()
        decay = min(0.3, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * (n + 1)
        with average.apply_averages():
            assert weight.tolist() == pytest.approx([expected] * 2)
        assert weight.tolist() == [n + 1] * 2
    assert (1 + 3) / (10 + 3) > 0.3 > (1 + 2) / (10 + 2)


def test_weight_average_restores_the_weights_after_an_error():
    weight = torch.ones(1)
    average = WeightAverage(lambda: [weight], decay=0.5)
    weight.fill_(2)

    def fail():
        with average.apply_averages():
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
    with average.apply_averages():
        assert weight.item() == 5


def evaluated(of, change, *, updates=1):
    """The tensors as they are evaluated, after `change`."""
    average = WeightAverage(of, decay=0.1)
    change()
    for _ in range(updates):
        average.update()
    with average.apply_averages():
        return [tensor.clone() for tensor in of()]


def test_average_mixes_statistics_and_complex_weights_and_copies_counts():
    norm = nn.BatchNorm1d(2)
    norm.spectrum = nn.Parameter(
        torch.zeros(1, dtype=torch.complex64), requires_grad=False
    )

    def train():
        norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
        norm.spectrum.fill_(10j)

    _, _, spectrum, mean, _, count = evaluated(partial(tensors, norm), train)
    assert torch.allclose(mean, 0.9 * torch.tensor([0.2, 0.4]))
    assert spectrum.item() == pytest.approx(9j)
    assert count == 1


def test_average_of_unchanged_tensors_keeps_them_bit_for_bit():
    weight = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    before = weight.clone()
    assert torch.equal(evaluated(lambda: [weight], lambda: None, updates=20)[0], before)
