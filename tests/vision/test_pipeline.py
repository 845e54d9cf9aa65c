import itertools
from contextlib import nullcontext
from functools import partial

import pytest
import real_ranks
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tuner.vision.blueprint import Blueprint
from tuner.vision.pipeline import Pipeline, _Layers, cuts, layers_of, micro_batches

CPU = torch.device("cpu")
BATCHES = (12, 12, 9, 7, 12)  # equal parts: 4, 4, 3, 1, 4


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(1, 5))
def test_no_other_cut_has_a_cheaper_dearest_stage(costs, stages):
    if stages > len(costs):
        with pytest.raises(ValueError, match="from 1 to the number of layers"):
            cuts(costs, stages)
        return
    ranges = cuts(costs, stages)
    assert [position for positions in ranges for position in positions] == list(range(len(costs)))
    assert len(ranges) == stages
    assert all(ranges)

    def dearest(bounds):
        return max(sum(costs[a:b]) for a, b in itertools.pairwise((0, *bounds, len(costs))))

    every = itertools.combinations(range(1, len(costs)), stages - 1)
    assert dearest([r.start for r in ranges[1:]]) == min(map(dearest, every))


@given(st.integers(1, 500), st.integers(1, 20))
def test_parts_are_equal_and_as_many_as_can_be(count, most):
    parts = micro_batches(count, most)
    assert count % parts == 0
    assert parts <= most
    assert not any(count % more == 0 for more in range(parts + 1, min(most, count) + 1))


def test_a_model_without_layers_is_refused():
    with pytest.raises(ValueError, match="cannot split Bilinear"):
        layers_of(nn.Bilinear(1, 1, 1))


def model(dtype, norm="group"):
    torch.manual_seed(0)
    shape = {"in_channels": 3, "image_size": 16, "num_classes": 10}
    return Blueprint(name="resnet20", settings={"norm": norm}, **shape).initial().to(dtype)


def batches(dtype):
    generator = torch.Generator().manual_seed(1)
    for count in BATCHES:
        x = torch.randn(count, 3, 16, 16, generator=generator).to(dtype)
        yield x, torch.randint(10, (count,), generator=generator)


def loss_sum(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")


def alone(dtype):
    whole, losses = model(dtype), []
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.002, momentum=0.9)
    for x, labels in batches(dtype):
        optimizer.zero_grad()
        loss = loss_sum(whole(x), labels) / len(labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    logits = [whole(x) for x, _ in batches(dtype)]
    return {"losses": losses, "logits": logits, "model": whole.state_dict()}


def staged(rank, dtype):
    whole = model(dtype)
    pipeline = Pipeline(whole, loss_sum=loss_sum, micro_batches=4, device=CPU)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.002, momentum=0.9)
    losses = []
    for x, labels in batches(dtype):
        optimizer.zero_grad()
        losses.append(pipeline.backward(x, labels).item() / len(labels))
        optimizer.step()
    logits = [pipeline.logits(x) for x, _ in batches(dtype)]
    own = {
        name: value
        for name, value in whole.state_dict(keep_vars=True).items()
        if pipeline.owns(value)
    }
    return {"losses": losses, "logits": logits, "own": own, "last": pipeline.last}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    cases = {str(dtype): partial(staged, dtype=dtype) for dtype in (torch.float64, torch.float32)}
    return real_ranks.run(cases, tmp_path_factory.mktemp("stages"))


@pytest.mark.parametrize(
    ("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str
)
def test_two_stages_equal_one_process(results, dtype, most):
    expected = alone(dtype)
    first, second = (rank[str(dtype)] for rank in results)
    assert (first["losses"], first["logits"]) == ([0] * len(BATCHES), [None] * len(BATCHES))
    assert second["losses"] == pytest.approx(expected["losses"], abs=most)
    for got, wanted in zip(second["logits"], expected["logits"], strict=True):
        assert (got - wanted).abs().max() <= most
    assert first["own"].keys().isdisjoint(second["own"])
    weights = first["own"] | second["own"]
    assert weights.keys() == expected["model"].keys()
    for name, value in expected["model"].items():
        assert (weights[name] - value).abs().max() <= most, name


def test_each_rank_trains_a_part(results):
    ranks = [rank["torch.float64"] for rank in results]
    first, second = (sum(value.numel() for value in rank["own"].values()) for rank in ranks)
    assert min(first, second) > (first + second) / 5
    assert [rank["last"] for rank in ranks] == [False, True]


def test_a_stage_may_begin_in_place_and_sends_what_its_shape_says():
    stage = _Layers(nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(2, 3, 3)), nullcontext)
    stage.to(memory_format=torch.channels_last)
    x = torch.randn(2, 2, 5, 5, requires_grad=True)
    before = x.detach().clone()
    out = stage(x)
    assert out.is_contiguous()
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    assert gradient.is_contiguous()
    assert torch.equal(x, before)
