from functools import partial

import pytest
import torch
from torch import nn

from tuner.vision.averages import Lookahead, WeightAverage
from tuner.vision.recipe import RecipeSettings


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


def made(of, **settings):
    values = {"steps": 2, "decay": 0.8, "power": 0, **settings}
    named = {f"lookahead_{name}": value for name, value in values.items()}
    return Lookahead(of, RecipeSettings(**named), total=10)


@pytest.mark.parametrize("power", [0, 1, 3])
def test_slow_weights_follow_by_the_formula(power):
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


def test_statistics_follow_too_and_counts_do_not():
    norm = nn.BatchNorm1d(2)
    lookahead = made(partial(tensors, norm), steps=1, decay=0.5)
    lookahead.begin()
    norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    seen = norm.running_mean.clone()
    lookahead.update(1, last=False)
    assert torch.allclose(norm.running_mean, seen / 2)
    assert norm.num_batches_tracked == 1


def test_weights_of_several_types_go_together():
    half, single = torch.zeros(3, dtype=torch.float16), torch.zeros(3)
    lookahead = made(lambda: [half, single], steps=1, decay=0.5)
    lookahead.begin()
    half += 1
    single += 1
    lookahead.update(1, last=True)
    assert half.tolist() == single.tolist() == [0.5] * 3


def test_complex_weights_follow():
    weights = [torch.zeros(1), torch.zeros(1, dtype=torch.complex64)]
    lookahead = made(lambda: weights, steps=1)
    lookahead.begin()
    weights[1].fill_(10j)
    lookahead.update(1, last=True)
    assert weights[1].item() == pytest.approx(2j)


def test_lookahead_keeps_unchanged_tensors_bit_for_bit():
    weight = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    lookahead, before = made(lambda: [weight], steps=1, decay=0.9), weight.clone()
    lookahead.begin()
    for step in range(10):
        lookahead.update(step, last=False)
    assert torch.equal(weight, before)


def test_without_steps_nothing_happens():
    weight = torch.zeros(1)
    lookahead = made(lambda: [weight], steps=0)
    lookahead.begin()
    weight.fill_(5)
    lookahead.update(1, last=True)
    assert weight.item() == 5
