import pytest
import torch
from torch import nn

from tuner.classifier.catalog import MODELS
from tuner.classifier.models.build import build_model
from tuner.classifier.models.pool import GlobalMean
from tuner.classifier.pipeline import layers_of
from tuner.classifier.settings import ClassifierSettings

LAYERED = tuple(name for name, info in MODELS.items() if info.layers > 1)


def test_the_mean_over_pixels():
    assert GlobalMean()(torch.arange(8.0).view(1, 2, 2, 2)).tolist() == [[1.5, 5.5]]


@pytest.mark.parametrize("name", LAYERED)
def test_a_models_layers_are_the_model(name):
    settings = ClassifierSettings(model=name, dataset="cifar10")
    model = build_model(settings, in_channels=3, image_size=32, num_classes=10).eval()
    assert len(layers_of(model)) == MODELS[name].layers
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(nn.Sequential(*layers_of(model))(x), model(x))


def test_the_others_say_that_they_cannot_be_split():
    for name in MODELS.keys() - set(LAYERED):
        settings = ClassifierSettings(model=name, dataset="cifar10")
        model = build_model(settings, in_channels=3, image_size=32, num_classes=10)
        with pytest.raises(ValueError, match="cannot split"):
            layers_of(model)
