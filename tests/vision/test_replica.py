"""Replicas in two real processes over gloo; see test_image_classifier.py, too."""

from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import pytest
import tiny_images
import torch
from real_ranks import compare_results, trained
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from tuner.vision import replica
from tuner.vision.catalog import DATASETS
from tuner.vision.collectives import Ranks
from tuner.vision.image_classifier import ImageClassifier

EXACT = {**tiny_images.EXACT, "epochs": 2}


def raise_out_of_memory(learner, most, failures, layer=None):
    """Make `learner` run out of memory, in `layer`, in any pass over more than `most` images."""

    def refuse(module, inputs):
        if learner.model.training and len(inputs[0]) > most:
            failures.append(len(inputs[0]))
            raise torch.OutOfMemoryError("CUDA out of memory.")

    (layer or learner.model).register_forward_pre_hook(refuse)


def out_of_memory_on_rank_1(rank):
    learner = ImageClassifier({}, EXACT, rank=rank, world_size=2)
    failures = []
    if rank == 1:
        raise_out_of_memory(learner, 3, failures)
    return {**trained(learner), "failures": failures}


def nothing_fits_on_rank_1(rank):
    learner = ImageClassifier({}, EXACT, rank=rank, world_size=2)
    if rank == 1:
        raise_out_of_memory(learner, 0, [])
    try:
        learner.step()
    except torch.OutOfMemoryError as error:
        return str(error)


on_cuda = patch.object(replica, "OVERLAPPING", ("cpu",))


@contextmanager
def watch_exchange():
    """Within it DistributedDataParallel exchanges the gradients."""
    ran = set()
    with register_module_forward_pre_hook(lambda module, _: ran.add(type(module))):
        yield
    assert DistributedDataParallel in ran


@on_cuda
def overlapping(rank):
    """As on CUDA: after one step of agreement the exchange is DistributedDataParallel's."""
    learner = ImageClassifier({}, EXACT, rank=rank, world_size=2)
    learner.load_state_dict({**learner.state_dict(), "micro_batch_size": 3})
    agreed = []
    smallest = Ranks.find_smallest

    def find_smallest(self, value):
        agreed.append(value)
        return smallest(self, value)

    with patch.object(Ranks, "find_smallest", find_smallest), watch_exchange():
        return {**trained(learner), "agreed": agreed}


@on_cuda
def compiled(rank):
    """Traced, but run as it is; the last of each epoch has 1 image."""
    shapes = []

    def backend(graph, inputs):
        shapes.append({len(x) for x in inputs if x.shape[1:] == (3, 32, 32)})
        return graph.forward

    with patch.object(torch, "compile", partial(torch.compile, backend=backend)):
        learner = ImageClassifier({"compile": True}, EXACT, rank=rank, world_size=2)
        return {**trained(learner), "shapes": shapes}


def in_folds(rank, world_size=2):
    folds = {**EXACT, "folds": 2, "fold_epochs": 1}
    return trained(ImageClassifier({}, folds, rank=rank, world_size=world_size))


@pytest.fixture(scope="module")
def results(group):
    cases = (
        in_folds,
        out_of_memory_on_rank_1,
        nothing_fits_on_rank_1,
        overlapping,
        compiled,
    )
    return group.run({case.__name__: case for case in cases})


@pytest.fixture(scope="module")
def alone():
    with patch.dict(DATASETS, tiny=tiny_images.INFO):
        return trained(ImageClassifier({}, EXACT))


def test_all_ranks_use_the_smallest_micro_batch(results, alone):
    first, second = (result["out_of_memory_on_rank_1"] for result in results)
    assert first["failures"] == []
    assert second["failures"] == [8, 4]
    for result in (first, second):
        assert [report["micro_batch_size"] for report in result["reports"]] == [2, 2]
        compare_results(result, alone)


def test_all_ranks_end_if_one_is_out_of_memory(results):
    first, second = (result["nothing_fits_on_rank_1"] for result in results)
    assert "on another rank" in first
    assert second == "CUDA out of memory."


def test_folds_on_two_ranks_equal_one_process(results):
    alone = in_folds(0, world_size=1)
    for result in results:
        compare_results(result["in_folds"], alone)


def test_overlapping_exchange_equals_one_process(results, alone):
    for result in results:
        # Before the first of 6 steps, and again once the optimizer has its state
        assert result["overlapping"]["agreed"] == [3, 3]
        compare_results(result["overlapping"], alone)


def test_compiled_network_has_one_shape_and_equals_one_process(results, alone):
    for result in results:
        assert result["compiled"]["shapes"] == [{8}]
        compare_results(result["compiled"], alone)
