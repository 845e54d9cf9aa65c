"""The mean and std that normalise the pixels of a training."""

from __future__ import annotations

from dataclasses import replace

from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.model_catalog import find_model_info
from tuner.vision.models._model import IMAGENET, PixelStats
from tuner.vision.settings import ClassifierSettings, GivenStats
from tuner.vision.weights import read_exported_stats


def replace_pixel_stats(data: DatasetInfo, settings: ClassifierSettings) -> DatasetInfo:
    """`data` with the mean and std by which `settings` normalise its pixels.

    Those of colour images are averaged for grey ones. Other channels, and weights of which nothing
    is known, leave the data's own.
    """
    stats: PixelStats | None = None
    if isinstance(settings.pixel_stats, GivenStats):
        stats = settings.pixel_stats.mean, settings.pixel_stats.std
    elif settings.pixel_stats == "imagenet":
        stats = IMAGENET
    elif settings.pixel_stats == "auto":
        stats = find_weight_stats(settings)
    if stats is None:
        return data
    mean, std = ((sum(s) / len(s),) if data.channels == 1 else s for s in stats)
    return replace(data, mean=mean, std=std) if len(mean) == data.channels else data


def find_weight_stats(settings: ClassifierSettings) -> PixelStats | None:
    """The mean and std that the initial weights were trained with, or None if they are unknown.

    An export says them. Of another file they are taken to be those of the network's own weights.
    """
    if not settings.begins_with_weights:
        return None
    if stats := read_exported_stats(settings.start_from):
        return stats
    known = find_model_info(settings.model).pixel_stats
    return known() if known else None
