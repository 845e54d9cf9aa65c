"""A split trial equals one that is not, and either goes on from what the other has saved."""

from functools import partial

import pytest
import real_ranks
import tiny_images
import torch
from test_image_classifier import quick

from tuner.testing.learner_contract import same
from tuner.vision import precision as numbers
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.precision import Hardware

EXACT = {
    **tiny_images.EXACT,
    "epochs": 3,
    "crop_padding": 2,
    "flip": True,
    "test_time_flip": True,
    "label_smoothing": 0.1,
    "norm_bias_lr": 2,
}
OPTIMIZERS = ("sgd", "adamw", "muon")


def reports_and_state(learner, steps):
    reports = [learner.step() for _ in range(steps)]
    return {"reports": reports, "state": learner.state_dict(), "test": learner.test()}


def split(rank, **config):
    return ImageClassifier(config, EXACT, rank=rank, world_size=2, split=2)


def alone(optimizer, steps):
    learner = ImageClassifier({"optimizer": optimizer}, EXACT)
    return learner, reports_and_state(learner, steps)


def case(rank, optimizer):
    from_start = split(rank, optimizer=optimizer)
    first = reports_and_state(from_start, 2)
    resumed = split(rank, optimizer=optimizer)
    resumed.load_state_dict(first["state"])
    taken_over = split(rank, optimizer=optimizer)
    taken_over.load_state_dict(alone(optimizer, 2)[1]["state"])
    return {
        "first": first,
        "third": from_start.step(),
        "resumed": resumed.step(),
        "taken over": reports_and_state(taken_over, 1),
        "micro": from_start.step()["micro_batch_size"],
    }


def half_precision(rank):
    """What stages send one another is of the weights' type, whatever they compute in."""
    numbers.hardware = lambda device: Hardware("cpu", bf16=True, fp16=True)
    config = {"dtype": "float32", "precision": "bf16"}
    return reports_and_state(split(rank, **config), 1)["reports"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    cases = {name: partial(case, optimizer=name) for name in OPTIMIZERS}
    return real_ranks.run({**cases, "bf16": half_precision}, tmp_path_factory.mktemp("split"))


def assert_close(state, wanted):
    assert state.keys() == wanted.keys()
    for key, value in wanted.items():
        if isinstance(value, dict):
            assert_close(state[key], value)
        elif isinstance(value, torch.Tensor):
            torch.testing.assert_close(state[key], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_stages_equal_one_process(results, optimizer):
    learner, wanted = alone(optimizer, 2)
    third = learner.step()
    for rank in results:
        got = rank[optimizer]
        for ours, theirs in zip(got["first"]["reports"], wanted["reports"], strict=True):
            assert quick(ours) == pytest.approx(quick(theirs), rel=1e-11)
        assert got["first"]["test"] == pytest.approx(wanted["test"], rel=1e-11)
        assert quick(got["third"]) == pytest.approx(quick(third), rel=1e-11)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_state_is_the_one_that_one_process_saves(results, optimizer):
    first, second = (rank[optimizer]["first"]["state"] for rank in results)
    assert same(first, second)
    wanted = alone(optimizer, 2)[1]["state"]
    del wanted["micro_batch_size"]
    assert_close(first, wanted)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_both_kinds_go_on_from_what_either_saved(results, optimizer):
    learner, _ = alone(optimizer, 2)
    third = quick(learner.step())
    for rank in results:
        got = rank[optimizer]
        assert quick(got["resumed"]) == quick(got["third"])
        assert quick(got["taken over"]["reports"][0]) == pytest.approx(third, rel=1e-11)
        whole = ImageClassifier({"optimizer": optimizer}, EXACT)
        whole.load_state_dict(got["first"]["state"])
        assert quick(whole.step()) == pytest.approx(third, rel=1e-11)
        assert_close(got["taken over"]["state"]["model"], learner.state_dict()["model"])


def test_split_trial_reports_its_micro_batch(results):
    assert [rank["sgd"]["micro"] for rank in results] == [2, 2]  # 16 images in 8 parts


def test_half_precision_trains(results):
    config = {"dtype": "float32", "precision": "float32"}
    wanted = ImageClassifier(config, EXACT).step()
    for rank in results:
        assert quick(rank["bf16"][0]) == pytest.approx(quick(wanted), rel=0.05)
        assert quick(rank["bf16"][0]) != quick(wanted)
