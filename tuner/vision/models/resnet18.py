"""ResNet-18 (He et al. 2016, table 1) with the stem that CIFAR's small images call for.

The ImageNet stem (7x7 stride 2, then pooling) would leave 8x8 of 32x32 before the first block, so
a 3x3 convolution of stride 1 without pooling takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.vision.models._model import ModelInfo, NormSettings

if TYPE_CHECKING:
    from torch import nn


def build(*, in_channels: int, num_classes: int, norm: str) -> nn.Module:
    """4 stages of 2 blocks of 64, 128, 256 and 512 channels; 11.2 M parameters."""
    from tuner.vision.models._resnet import projected, resnet

    return resnet(
        in_channels=in_channels,
        num_classes=num_classes,
        norm=norm,
        widths=(64, 128, 256, 512),
        blocks_per_stage=2,
        shortcut=projected,
    )


MODEL = ModelInfo(build, NormSettings, smallest=16, layers=13)
