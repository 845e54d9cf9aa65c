from functools import partial

import pytest
import torch
from torch import nn

from tuner.vision.ema import WeightAverage


def tensors(model):
    return [*model.parameters(), *model.buffers()]


def test_the_decay_grows_to_the_one_that_is_set():
    weight = torch.zeros(2, dtype=torch.float64)
    average, wanted = WeightAverage(lambda: [weight], decay=0.3), 0.0
    for n in range(6):
        weight.fill_(n + 1)
        average.update()
        decay = min(0.3, (1 + n) / (10 + n))
        wanted = decay * wanted + (1 - decay) * (n + 1)
        with average.applied():
            assert weight.tolist() == pytest.approx([wanted] * 2)
        assert weight.tolist() == [n + 1] * 2
    assert (1 + 3) / (10 + 3) > 0.3 > (1 + 2) / (10 + 2)


def test_statistics_are_averaged_and_counts_are_copied():
    norm = nn.BatchNorm1d(2)
    average = WeightAverage(partial(tensors, norm), decay=0.5)
    norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    average.update()
    seen = norm.running_mean.clone()
    with average.applied():
        assert torch.allclose(norm.running_mean, 0.9 * seen)
        assert norm.num_batches_tracked == 1


def test_complex_weights_are_averaged():
    weights = [torch.zeros(1), torch.zeros(1, dtype=torch.complex64)]
    average = WeightAverage(lambda: weights, decay=0.5)
    weights[1].fill_(10j)
    average.update()
    with average.applied():
        assert weights[1].item() == pytest.approx(9j)


def test_what_does_not_change_stays_bit_for_bit():
    weight = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    average, before = WeightAverage(lambda: [weight], decay=0.999), weight.clone()
    for _ in range(20):
        average.update()
    with average.applied():
        assert torch.equal(weight, before)


def test_the_weights_come_back_after_an_error():
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


def test_what_is_loaded_while_it_is_applied_replaces_it():
    model = nn.Linear(1, 1)
    average, trained = WeightAverage(partial(tensors, model), decay=0.5), model.weight.item()
    with average.applied():
        model.load_state_dict({"weight": torch.full((1, 1), 7.0), "bias": torch.zeros(1)})
    assert model.weight.item() == trained
    with average.applied():
        assert model.weight.item() == 7


def test_it_can_begin_anew():
    weight = torch.zeros(1)
    average = WeightAverage(lambda: [weight], decay=0.9)
    average.update()
    weight.fill_(5)
    average.begin()
    assert average.updates == 0
    with average.applied():
        assert weight.item() == 5


def test_without_a_decay_nothing_is_kept():
    weight = torch.zeros(1)
    average = WeightAverage(lambda: [weight], decay=0)
    weight.fill_(5)
    average.update()
    with average.applied():
        assert weight.item() == 5
    assert average.updates == 0


def test_a_forward_pass_may_put_another_buffer_in_place():
    model = nn.Module()
    model.register_buffer("seen", torch.zeros(1))
    average = WeightAverage(partial(tensors, model), decay=0.05)
    model.seen = torch.full((1,), 4.0)
    average.update()
    with average.applied():
        assert model.seen.item() == pytest.approx(0.95 * 4)
    assert model.seen.item() == 4
