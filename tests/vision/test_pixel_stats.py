"""The mean and std of the pixels of a training."""

from dataclasses import replace

import tiny_images

from tuner.vision.pixel_stats import replace_pixel_stats
from tuner.vision.settings import ClassifierSettings

RESNET = {"model": "torchvision:resnet18"}
LITE = {"model": "efficientnet_lite0"}
SETTINGS = [
    {},
    {"pixel_stats": "imagenet"},
    {"pixel_stats": {"mean": [0.2, 0.3, 0.4], "std": [1, 1, 1]}},
    {"pixel_stats": "data", "pretrained": True, **RESNET},
    {"pretrained": True, **RESNET},
    {"pretrained": True, **LITE},
    {"start_from": "x.pt"},
    {"start_from": "x.pt", **LITE},
]


def test_pixel_stats_are_those_of_the_weights_where_known(snapshot):
    for settings in SETTINGS:
        for channels in (1, 3, 4):
            stats = (0.1,) * channels
            data = replace(tiny_images.INFO, channels=channels, mean=stats, std=stats)
            found = replace_pixel_stats(data, ClassifierSettings(**settings))
            rounded = [
                [round(value, 4) for value in values]
                for values in (found.mean, found.std)
            ]
            snapshot(f"{settings}, {channels} channels: {rounded}")


def test_pixel_stats_of_an_export_are_in_its_config(tmp_path):
    (tmp_path / "config.json").write_text('{"input": {"mean": [0.5], "std": [0.2]}}')
    data = replace(tiny_images.INFO, channels=1, mean=(0.1,), std=(0.1,))
    for source in (tmp_path, tmp_path / "model.safetensors"):
        settings = ClassifierSettings(start_from=str(source))
        assert replace_pixel_stats(data, settings).mean == (0.5,)
