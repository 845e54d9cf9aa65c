from pathlib import Path

import numpy as np
import torch
from tiny_images import arrays, info, size

from tuner.shipped.experiments.cifar10_speednet import experiment
from tuner.shipped.search_spaces.random_search import CIFAR10_SPEEDNET
from tuner.vision.datasets._dataset import ImageArrays
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.models._layers import Whitening
from tuner.vision.settings import check_settings

RECIPE = {**experiment().training, "dataset": "tiny", "width": 8, "batch_size": 16}


def images(count=40, size=20):
    """Smooth, so that neighbouring pixels and channels go together, as in photographs."""
    coarse = torch.randn(count, 3, size // 4, size // 4)
    x = torch.nn.functional.interpolate(coarse, scale_factor=4, mode="bilinear")
    return x + x.mean(1, keepdim=True) + 0.2 * torch.randn(x.shape)


def test_whitening_gives_unit_variance_in_every_direction():
    torch.manual_seed(0)
    x, whitening = images(), Whitening(3)
    whitening.learn(x)
    out = whitening(x - x.mean((0, 2, 3), keepdim=True)).transpose(0, 1).flatten(1)
    covariance = torch.cov(out[:12])
    assert (covariance - torch.eye(12)).abs().max() < 0.05
    assert torch.allclose(out[:12], -out[12:], atol=1e-5)


def test_prepare_learns_the_whitening_once():
    learner = ImageClassifier({"lr": 0.5}, {**RECIPE, "epochs": 2})
    other = ImageClassifier({"lr": 0.1}, {**RECIPE, "epochs": 2, "seed": 7})
    learned = learner.model.whitening.weight.clone()
    assert torch.equal(learned, other.model.whitening.weight)  # of the data alone
    assert not torch.equal(learned, Whitening(3).weight)
    bias = learner.model.whitening.bias.clone()
    learner.step()
    assert torch.equal(learned, learner.state_dict()["model"]["whitening.weight"])
    assert not torch.equal(bias, learner.model.whitening.bias)


def textures(folder: Path, *, split_seed: int) -> ImageArrays:
    """Class k is a noisy texture of its own, so it can be learned."""
    rng = np.random.default_rng(split_seed)
    count = size(TEXTURES)
    labels = rng.integers(0, 10, count)
    tiles = rng.normal(0, 35, (10, 8, 8, 3))
    wholes = np.tile(tiles, (1, 5, 5, 1))
    corners = rng.integers(0, 8, (count, 2))
    images = np.stack(
        [
            wholes[label, top : top + 32, left : left + 32]
            for label, (top, left) in zip(labels, corners, strict=True)
        ]
    )
    images = (images + 128 + rng.normal(0, 25, images.shape)).clip(0, 255)
    return arrays(TEXTURES, images, labels, np.arange(count))


TEXTURES = info(textures, train=320, validation=100, test=100)


def test_recipe_of_speednet_learns(add_dataset):
    add_dataset("textures", TEXTURES)
    recipe = {**RECIPE, "dataset": "textures", "batch_size": 32, "epochs": 6}
    learner = ImageClassifier({"lr": 160, "norm_bias_lr": 8}, recipe)  # 0.5 at batches of 32
    reports = [learner.step() for _ in range(6)]
    assert reports[-1]["val_accuracy"] > 0.9
    assert learner.test()["test_accuracy"] > 0.9


def test_search_space_of_speednet_names_settings():
    middle = {"batch_size": 512, "lr": 1.0, "weight_decay": 1e-3, "momentum": 0.9}
    values = {name: middle.get(name, 0.5) for name in CIFAR10_SPEEDNET}
    assert check_settings({**experiment().training, **values}, files=False) == []
