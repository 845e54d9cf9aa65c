"""BatchNorm over two ranks."""

from copy import deepcopy

import norms_over_ranks
import pytest
import tiny_images
import torch
from real_ranks import compare_results, trained
from test_replica import raise_out_of_memory
from torch import nn

from tuner.testing.contracts import is_equal
from tuner.vision.collectives import Ranks
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.shared_norms import (
    SharedBatchNorm,
    list_shared_norms,
    list_unshared_norms,
    share_norms,
)

SETTINGS = {**tiny_images.EXACT, "norm": "batch", "epochs": 2}


def learner(rank=0, world_size=1, **settings):
    return ImageClassifier(settings, SETTINGS, rank=rank, world_size=world_size)


def as_one(rank):
    """16 and then 1 of 49 images: in the last batch of an epoch rank 1 has none."""
    with norms_over_ranks.on_the_host():
        return trained(learner(rank, 2))


def out_of_memory_on_rank_1(rank):
    with norms_over_ranks.on_the_host():
        made = learner(rank, 2)
        failures = []
        if rank == 1:
            # In the second layer of norms: the other rank is then within its forward pass
            raise_out_of_memory(made, 3, failures, list_shared_norms(made.model)[1])
        return {**trained(made), "failures": failures}


@pytest.fixture(scope="module")
def results(group):
    cases = (as_one, out_of_memory_on_rank_1)
    return group.run({case.__name__: case for case in cases})


def test_shared_norms_of_two_ranks_equal_one_process(results):
    alone = trained(learner())
    for result in results:
        compare_results(result["as_one"], alone, rel=1e-9, most=1e-9)


def test_out_of_memory_within_a_norm_is_agreed_among_ranks(results):
    first, second = (result["out_of_memory_on_rank_1"] for result in results)
    assert (first["failures"], second["failures"]) == ([], [8, 4])
    for result in (first, second):
        assert [report["micro_batch_size"] for report in result["reports"]] == [2, 2]
    assert is_equal(first["state"], second["state"])


class ActivatedNorm(nn.BatchNorm2d):
    """BatchNorm and an activation in one layer, as in timm."""

    def forward(self, x):
        return super().forward(x).relu()


class RenamedNorm(nn.BatchNorm2d):
    """BatchNorm by another name."""


def test_shared_over_ranks_leaves_layers_that_compute_more_than_batch_norm():
    twice = RenamedNorm(4)
    model = nn.Sequential(
        nn.BatchNorm2d(4), ActivatedNorm(4), twice, nn.Sequential(twice)
    )
    names = list(model.state_dict())
    weights = list(model.parameters())
    x_NCHW = torch.randn(8, 4, 3, 3)
    expected = model.eval()(x_NCHW)
    shared = share_norms(model)
    kinds = [type(layer) for layer in shared[:3]]
    assert kinds == [SharedBatchNorm, ActivatedNorm, SharedBatchNorm]
    assert shared[2] is shared[3][0]
    assert list_unshared_norms(shared) == ["1"]
    assert list(shared.state_dict()) == names
    assert all(a is b for a, b in zip(shared.parameters(), weights, strict=True))
    assert torch.equal(shared.eval()(x_NCHW), expected)
    assert type(share_norms(nn.BatchNorm2d(4))) is SharedBatchNorm


def test_norms_that_stay_local_are_named(capsys):
    model = nn.Sequential(nn.BatchNorm2d(4), ActivatedNorm(4))
    for rank in (0, 1):
        Ranks(rank, 2, torch.device("cuda")).sync_norms(deepcopy(model))
    assert (
        capsys.readouterr().out
        == "warning: 1 normalise by the images of each rank alone\n"
    )
