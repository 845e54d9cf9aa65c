"""What is measured of a trained model, as its Learner measures it."""

import pytest
import torch

from tuner.classifier.batches import image_set
from tuner.classifier.evaluation import measure
from tuner.classifier.image_classifier import ImageClassifier
from tuner.classifier.settings import ClassifierSettings

RECIPE = {"lr": 0.3, "width": 4, "test_time_flip": True, "metrics": ["balanced_accuracy"]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("recipe", [{}, {**RECIPE, "class_weights": "balanced"}])
def test_measure_gives_what_the_learner_measures(dtype, recipe):
    values = {"model": "cnn", "dataset": "digits", "dtype": dtype, **recipe}
    learner = ImageClassifier({}, {**values, "epochs": 1, "seed": 3})
    learner.step()
    device = torch.device("cpu")
    images = image_set("digits", data_dir=None, split_seed=0, device=device)
    measured = measure(learner.model, ClassifierSettings(**values), images, device)
    assert measured == pytest.approx(learner.test())
    assert (measured["images"], measured["baseline"]) == (360, 37 / 360)
