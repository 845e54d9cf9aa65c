"""A split trial equals one that is not split, and each continues from the other's state."""

from contextlib import nullcontext
from functools import partial
from itertools import chain

import numpy as np
import pytest
import tiny_images
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_image_classifier import quick
from torch import nn

from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.pipeline import _Layers, count_micro_batches, split_costs


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.data())
def test_cuts_have_a_layer_each_and_no_cost_above_that_of_equal_counts(costs, data):
    stages = data.draw(st.integers(1, len(costs)))
    ranges = split_costs(costs, stages)
    assert [*chain(*ranges)] == [*range(len(costs))]
    assert len(ranges) == stages
    assert all(ranges)
    dearest = max(sum(costs[n] for n in positions) for positions in ranges)
    assert dearest <= max(part.sum() for part in np.array_split(costs, stages))


@given(st.integers(1, 500), st.integers(1, 20))
def test_micro_batches_are_equal_and_as_many_as_possible(count, most):
    parts = count_micro_batches(count, most)
    assert count % parts == 0
    assert parts <= most
    assert not any(count % more == 0 for more in range(parts + 1, min(most, count) + 1))


def test_layers_may_begin_in_place_and_send_contiguous_tensors():
    stage = _Layers(
        nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(2, 3, 3)), nullcontext
    )
    stage.to(memory_format=torch.channels_last)
    x = torch.randn(2, 2, 5, 5, requires_grad=True)
    before = x.detach().clone()
    out = stage(x)
    assert out.is_contiguous()
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    assert gradient.is_contiguous()
    assert torch.equal(x, before)


EXACT = {
    **tiny_images.EXACT,
    "epochs": 3,
    "crop_padding": 2,
    "flip": True,
    "test_time_flip": True,
    "label_smoothing": 0.1,
}
OPTIMIZERS = ("adamw", "muon")  # the latter trains some parameters by SGD


def run_steps(learner, steps):
    reports = [learner.step() for _ in range(steps)]
    return {"reports": reports, "state": learner.state_dict(), "test": learner.test()}


def split(rank, **config):
    return ImageClassifier(config, EXACT, rank=rank, world_size=2, split=2)


def alone(optimizer, steps):
    learner = ImageClassifier({"optimizer": optimizer}, EXACT)
    return learner, run_steps(learner, steps)


def case(rank, optimizer):
    from_start = split(rank, optimizer=optimizer)
    first = run_steps(from_start, 1)
    taken_over = split(rank, optimizer=optimizer)
    taken_over.load_state_dict(alone(optimizer, 1)[1]["state"])
    return {
        "first": first,
        "second": from_start.step(),
        "taken over": run_steps(taken_over, 1),
        "own": sum(tensor.numel() for tensor in from_start._part.list_tensors()),
    }


@pytest.fixture(scope="module")
def results(group):
    cases = {name: partial(case, optimizer=name) for name in OPTIMIZERS}
    return group.run(cases)


def compare_states(state, expected):
    assert state.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, dict):
            compare_states(state[key], value)
        elif isinstance(value, torch.Tensor):
            torch.testing.assert_close(state[key], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_split_and_whole_trials_continue_from_either_state(results, optimizer):
    learner, _ = alone(optimizer, 1)
    second = quick(learner.step())
    for rank in results:
        got = rank[optimizer]
        assert quick(got["taken over"]["reports"][0]) == pytest.approx(
            second, rel=1e-11
        )
        whole = ImageClassifier({"optimizer": optimizer}, EXACT)
        whole.load_state_dict(got["first"]["state"])
        assert quick(whole.step()) == pytest.approx(second, rel=1e-11)
        compare_states(
            got["taken over"]["state"]["model"], learner.state_dict()["model"]
        )


def test_each_stage_trains_its_part_in_micro_batches(results):
    sizes = [rank["muon"]["second"]["micro_batch_size"] for rank in results]
    assert sizes == [2, 2]  # 16 images in 8 parts
    parts = [rank["muon"]["own"] for rank in results]
    model = ImageClassifier({}, EXACT).model
    assert sum(parts) == sum(t.numel() for t in (*model.parameters(), *model.buffers()))
    assert min(parts) > 0
