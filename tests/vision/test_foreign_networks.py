"""The image classifier with foreign networks: everything works as with those that ship."""

from functools import partial

import pytest
import tiny_images
from own_networks import own
from real_ranks import compare_results, trained
from test_image_classifier import ClassifierContract
from test_replica import on_cuda, watch_exchange

from tuner.errors import SpecError
from tuner.testing.contracts import is_equal
from tuner.vision.image_classifier import ImageClassifier

TINY = {"dataset": "tiny", "batch_size": 16, "epochs": 3}
EXACT = {**TINY, "dtype": "float64", "lr": 0.05, "epochs": 2}


class TestDrawing(ClassifierContract):
    """Goes on from a checkpoint bit for bit, though it draws from every global generator."""

    steps = 2

    def make(self, *, seed=0):
        config = {"lr": 0.1, "model_args": {"dropout": 0.4}}
        constants = {
            **TINY,
            "model": own("Drawing"),
            "model_args": {"width": 6},
            "seed": seed,
        }
        return ImageClassifier(config, constants)


def learner(name, *, rank=0, world_size=1, **settings):
    constants = {**TINY, "model": own(name), **settings}
    return ImageClassifier({}, constants, rank=rank, world_size=world_size)


def test_model_args_of_config_and_constants_are_merged():
    constants = {
        **TINY,
        "model": own("Small"),
        "model_args": {"width": 6, "dropout": 0.5},
    }
    model = ImageClassifier({"model_args": {"dropout": 0.1}}, constants).model
    assert (model.conv.out_channels, model.drop.p) == (6, 0.1)


def test_network_that_cannot_train_on_one_image_is_refused(snapshot):
    assert tiny_images.INFO.train % 16 == 1
    with snapshot.raises(SpecError):
        learner("Flat")
    assert learner("Flat", batch_size=13).step()["val_loss"] > 0


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"dtype": "float64"}])
def test_foreign_network_trains_in_any_precision(settings):
    assert learner("Small", **settings).step()["train_loss"] > 0


EXPERTS = {**EXACT, "optimizer": "adamw", "weight_decay": 0.1}


def plain(rank, name, settings):
    return trained(learner(name, rank=rank, world_size=2, **settings))


def overlapping(rank, name, settings, micro_batch_size=None):
    """As on CUDA, where DistributedDataParallel exchanges gradients.

    Two steps use all experts, a later one does on rank 1 only; one image uses one.
    """
    with on_cuda, watch_exchange():
        network = learner(name, rank=rank, world_size=2, **settings)
        if micro_batch_size:
            state = {**network.state_dict(), "micro_batch_size": micro_batch_size}
            network.load_state_dict(state)
        return trained(network)


# The last part of a step, in which the ranks exchange, uses other experts than the first
IN_PARTS = partial(overlapping, micro_batch_size=3)
CASES = {
    "unused": (plain, "Unused", EXACT),
    "experts": (plain, "Experts", EXPERTS),
    "overlapping unused": (overlapping, "Unused", EXACT),
    "overlapping experts in parts": (IN_PARTS, "Experts", EXPERTS),
}
DRAWING = {"drawing": (plain, "Drawing", {})}


@pytest.fixture(scope="module")
def ranks(group):
    cases = {
        case: partial(run, name=name, settings=settings)
        for case, (run, name, settings) in {**CASES, **DRAWING}.items()
    }
    return group.run(cases)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_equal_one_process(ranks, case):
    _, name, settings = CASES[case]
    alone = trained(learner(name, **settings))
    for result in ranks:
        compare_results(result[case], alone)


def test_two_ranks_of_a_drawing_network_agree_on_the_weights(ranks):
    first, second = (result["drawing"] for result in ranks)
    assert is_equal(first, second)
