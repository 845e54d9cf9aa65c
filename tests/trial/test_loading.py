"""Trainables by their dotted path, and what can be told of them."""

import pytest

from tuner.classifier.image_classifier import ImageClassifier
from tuner.trial.loading import (
    declared_metrics,
    is_learner,
    load_trainable,
    takes_split,
    trainable_fault,
)


class Outer:
    class Inner(ImageClassifier):
        metrics = ["a", "b"]  # noqa: RUF012


def train(config):
    pass


def test_a_class_a_nested_class_and_a_function_are_found():
    assert load_trainable("tuner.classifier.image_classifier:ImageClassifier") is ImageClassifier
    assert load_trainable("test_loading:Outer.Inner").__name__ == "Inner"
    assert load_trainable("test_loading:train").__name__ == "train"


@pytest.mark.parametrize("path", ["nowhere:X", "json:nothing", "json:JSONDecoder.nothing"])
def test_what_is_not_there_raises(path):
    with pytest.raises((ImportError, AttributeError)):
        load_trainable(path)


def test_a_class_is_a_learner_and_a_function_is_not():
    assert (is_learner(ImageClassifier), is_learner(train)) == (True, False)


@pytest.mark.parametrize("good", [ImageClassifier, train, lambda config, epochs=3: None])
def test_no_fault(good):
    assert trainable_fault(good) is None


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (dict, "class dict is no Learner: it lacks step(), state_dict(), load_state_dict()"),
        ("text", "must be a Learner class or a function of config"),
        (lambda: None, "a function must take one argument, config"),
        (lambda config, more: None, "a function must take one argument, config"),
    ],
)
def test_what_is_neither_is_told(bad, rule):
    fault = trainable_fault(bad)
    assert (fault.key, fault.rule) == ("trainable", rule)


def test_what_can_be_one_stage_of_several_says_so():
    class Whole:
        def __init__(self, config, constants, *, device, rank, world_size):
            pass

    assert takes_split(Outer.Inner)
    assert not takes_split(Whole)
    assert not takes_split(train)


def test_metrics_are_known_where_they_are_declared():
    assert declared_metrics(ImageClassifier)[0] == "train_loss"
    assert declared_metrics(Outer.Inner) == ("a", "b")
    assert declared_metrics(train) is None
