"""The mean and std of the pixels of a training."""

from dataclasses import replace

import pytest
import tiny_images

from tuner.vision.pixel_stats import replace_pixel_stats
from tuner.vision.settings import ClassifierSettings


@pytest.mark.parametrize(
    ("settings", "channels", "mean"),
    [
        ({"pixel_stats": "imagenet"}, 3, (0.485, 0.456, 0.406)),
        ({"pixel_stats": "imagenet"}, 1, (pytest.approx(0.449),)),
        ({"pixel_stats": "imagenet"}, 4, (0.1, 0.1, 0.1, 0.1)),
        ({"pixel_stats": "data", "pretrained": True, "model": "torchvision:resnet18"}, 1, (0.1,)),
        ({"pretrained": True, "model": "torchvision:resnet18"}, 3, (0.485, 0.456, 0.406)),
        ({"pretrained": True, "model": "efficientnet_lite0"}, 1, (pytest.approx(127 / 255),)),
        ({"start_from": "x.pt", "model": "efficientnet_lite0"}, 3, (127 / 255,) * 3),
        ({"start_from": "x.pt"}, 3, (0.1, 0.1, 0.1)),
        ({"pixel_stats": {"mean": [0.2, 0.3, 0.4], "std": [1, 1, 1]}}, 3, (0.2, 0.3, 0.4)),
        ({"pixel_stats": {"mean": [0.2, 0.3, 0.4], "std": [1, 1, 1]}}, 1, (pytest.approx(0.3),)),
        ({}, 3, (0.1, 0.1, 0.1)),
    ],
)
def test_pixel_stats_are_those_of_the_weights_where_known(settings, channels, mean):
    stats = (0.1,) * channels
    data = replace(tiny_images.INFO, channels=channels, mean=stats, std=stats)
    assert replace_pixel_stats(data, ClassifierSettings(**settings)).mean == mean


def test_pixel_stats_of_an_export_are_in_its_config(tmp_path):
    (tmp_path / "config.json").write_text('{"input": {"mean": [0.5], "std": [0.2]}}')
    data = replace(tiny_images.INFO, channels=1, mean=(0.1,), std=(0.1,))
    for source in (tmp_path, tmp_path / "model.safetensors"):
        settings = ClassifierSettings(start_from=str(source))
        assert replace_pixel_stats(data, settings).mean == (0.5,)
