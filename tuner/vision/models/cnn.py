"""A small CNN for small images: three 3x3 convolutions, one pooling, a global mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.vision.models._model import ModelInfo, Widened

if TYPE_CHECKING:
    from torch import nn


def build(*, in_channels: int, num_classes: int, width: int, norm: str) -> nn.Module:
    """conv `width` - conv 2 `width` - max pool - conv 4 `width` - global mean - linear."""
    from torch import nn

    from tuner.vision.models._layers import GlobalMean, build_norm, build_sequence

    def build_block(before: int, channels: int) -> list[nn.Module]:
        convolution = nn.Conv2d(before, channels, 3, padding=1, bias=False)
        return [convolution, build_norm(norm, channels), nn.ReLU(inplace=True)]

    features = nn.Sequential(
        *build_block(in_channels, width),
        *build_block(width, 2 * width),
        nn.MaxPool2d(2),
        *build_block(2 * width, 4 * width),
    )
    head = nn.Linear(4 * width, num_classes)
    return build_sequence(features=features, mean=GlobalMean(), head=head)


MODELS = {"cnn": ModelInfo(build, Widened, smallest=4, layers=12)}
