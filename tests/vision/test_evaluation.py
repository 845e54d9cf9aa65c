"""Metrics of a trained model, as its Learner measures them."""

import pytest
import torch

from tuner.vision.batches import image_set
from tuner.vision.blueprint import blueprint_of
from tuner.vision.catalog import DataChoice
from tuner.vision.evaluation import measure
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.settings import ClassifierSettings

RECIPE = {"lr": 0.3, "width": 4, "test_time_flip": True, "metrics": ["balanced_accuracy"]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("recipe", [{}, {**RECIPE, "class_weights": "balanced"}])
def test_measure_equals_the_learners_test(dtype, recipe):
    learner, measured = both({"model": "cnn", "dtype": dtype, **recipe})
    assert measured == pytest.approx(learner.test())
    assert (measured["images"], measured["baseline"]) == (360, 37 / 360)


def both(values):
    """A Learner that has trained, and what `measure` gives of a copy of its model."""
    values = {"dataset": "digits", **values}
    learner = ImageClassifier({}, {**values, "epochs": 1, "seed": 3})
    learner.step()
    device, settings = torch.device("cpu"), ClassifierSettings(**values)
    images = image_set(DataChoice("digits"), device)
    plan = blueprint_of(settings, images.info)
    model = plan.initial()
    model.load_state_dict(learner.model.state_dict())
    metrics, details = measure(model, plan, settings, images, device)
    assert sum(map(sum, details["confusion"]["matrix"])) == metrics["images"]
    return learner, metrics
