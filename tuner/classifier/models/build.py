"""From settings to a model."""

from __future__ import annotations

from typing import cast

from torch import nn

from tuner.classifier.catalog import MODELS, load_builder
from tuner.classifier.settings import ClassifierSettings, model_settings


def build_model(
    settings: ClassifierSettings, *, in_channels: int, image_size: int, num_classes: int
) -> nn.Module:
    """The model that `settings` names, for square images of `image_size` px, in float32.

    The caller seeds: the weights are drawn from torch's global random number generator. The model
    maps x_NCHW to logits_NK. Raises ValueError for images that the model does not take.
    """
    info = MODELS[settings.model]
    if not info.takes(channels=in_channels, image_size=image_size):
        raise ValueError(
            f"model {settings.model!r} takes {info.needs()}, "
            f"got {in_channels}x{image_size}x{image_size}"
        )
    builder = load_builder(info.builder)
    model = builder(in_channels=in_channels, num_classes=num_classes, **model_settings(settings))
    return cast(nn.Module, model)
