import pytest
import torch

from tuner.classifier.catalog import MODELS
from tuner.classifier.models.build import build_model
from tuner.classifier.settings import ClassifierSettings


def build(model, *, channels=3, size=32, **own):
    settings = ClassifierSettings(model=model, dataset="cifar10", **own)
    return build_model(settings, in_channels=channels, image_size=size, num_classes=10)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_gives_logits_and_gradients(model):
    net = build(model)
    net(torch.randn(2, 3, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("model", MODELS)
def test_every_model_takes_its_smallest_images_one_at_a_time(model):
    info = MODELS[model]
    channels = info.channels or 1
    net = build(model, channels=channels, size=info.smallest)
    assert net(torch.randn(1, channels, info.smallest, info.smallest)).shape == (1, 10)


def test_the_caller_seeds():
    def weights(seed):
        torch.manual_seed(seed)
        return torch.cat([p.flatten() for p in build("cnn").parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize(("model", "size"), [("net", 8), ("net", 64), ("resnet18", 8)])
def test_images_that_the_model_does_not_take_are_refused(model, size):
    with pytest.raises(ValueError, match=f"model '{model}' takes .*got 3x{size}x{size}"):
        build(model, size=size)
