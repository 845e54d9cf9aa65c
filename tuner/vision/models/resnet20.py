"""ResNet-20 for CIFAR: He et al., "Deep Residual Learning" (CVPR 2016), section 4.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.vision.models._model import ModelInfo, NormSettings

if TYPE_CHECKING:
    from torch import nn


def build(*, in_channels: int, num_classes: int, norm: str) -> nn.Module:
    """3 stages of 3 blocks of 16, 32 and 64 channels; 0.27 M parameters."""
    from tuner.vision.models._resnet import Padded, resnet

    return resnet(
        in_channels=in_channels,
        num_classes=num_classes,
        norm=norm,
        widths=(16, 32, 64),
        blocks_per_stage=3,
        shortcut=Padded,
    )


MODEL = ModelInfo(build, NormSettings, smallest=8, layers=14)
