"""Trainables by their dotted path, and what can be told of them."""

import json  # noqa: F401 - found through this module
import logging.config
import sys
from functools import partial

import pytest

from tuner.spec.loading import (
    find_trainable_fault,
    has_test,
    is_learner,
    load_trainable,
)
from tuner.spec.settings import FaultsError
from tuner.vision.image_classifier import ImageClassifier


class Outer:
    class Inner(ImageClassifier):
        metrics = ["a", "b"]  # noqa: RUF012


def train(config):
    pass


def build(config, constants, *, device, rank, world_size):
    return ImageClassifier(
        config, constants, device=device, rank=rank, world_size=world_size
    )


def build_stage(config, constants, *, device="cpu", rank=0, world_size=1, split=1):
    return ImageClassifier(config, constants, device=device, rank=rank, split=split)


build.metrics = ("val_loss",)
found_here = logging.config.dictConfig


class BuiltOtherwise(ImageClassifier):
    def __init__(self, path):
        pass


def test_load_trainable_finds_classes_and_functions():
    assert (
        load_trainable("tuner.vision.image_classifier:ImageClassifier")
        is ImageClassifier
    )
    assert load_trainable("test_loading:Outer.Inner").__name__ == "Inner"
    assert load_trainable("test_loading:train").__name__ == "train"


@pytest.mark.parametrize(
    "path",
    [
        *(
            "logging.config:dictConfig",
            "os:system",
            "builtins:exec",
            "antigravity:fly_unladen",
        ),
        *(
            "test_loading:logging.os.system",
            "test_loading:found_here",
            "test_loading:json.loads",
        ),
    ],
)
def test_load_trainable_refuses_standard_library(snapshot, path):
    with snapshot.raises(FaultsError):
        load_trainable(path)
    assert "antigravity" not in sys.modules


def test_is_learner_excludes_tune_functions():
    assert (is_learner(ImageClassifier), is_learner(train)) == (True, False)
    assert is_learner(build)
    assert is_learner(build_stage)
    assert is_learner(partial(build_stage, device="cpu"))
    # A config is enough
    assert not is_learner(lambda config, constants=None, **place: None)


def test_has_test_is_of_learners_with_that_method():
    assert [*map(has_test, (ImageClassifier, train, build, Outer))] == [
        True,
        False,
        False,
        False,
    ]


FORMS = (
    "a function must take (config), or (config, constants, *, device, rank, world_size) to build "
    "a Learner"
)


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (
            dict,
            "class dict is no Learner: it lacks step(), state_dict(), load_state_dict()",
        ),
        (
            "text",
            "must be a Learner class, a function that builds one, or a function of config",
        ),
        (
            BuiltOtherwise,
            "class BuiltOtherwise is no Learner: it must take (config, constants, *, device, rank, "
            "world_size)",
        ),
        (lambda: None, FORMS),
    ],
)
def test_trainable_fault_names_what_is_missing(bad, rule):
    fault = find_trainable_fault(bad)
    assert (fault.key, fault.rule) == ("trainable", rule)
