"""ResNet-10 for photos of some 64 px: He et al. 2016, one block a stage, a stem of stride 2.

Halving the image in the stem makes a step on 64 px as fast as one of ResNet-20 on 32 px.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.spec.settings import Settings
from tuner.vision.models._model import ModelInfo, Norm, Width

if TYPE_CHECKING:
    from torch import nn


class Hyperparameters(Settings):
    width: Width = 16
    norm: Norm = "batch"


def build(*, in_channels: int, num_classes: int, width: int, norm: str) -> nn.Module:
    """4 stages of 1 block of `width`, 2, 4 and 8 `width` channels; 0.31 M parameters for 16."""
    from tuner.vision.models._resnet import projected, resnet

    return resnet(
        in_channels=in_channels,
        num_classes=num_classes,
        norm=norm,
        widths=(width, 2 * width, 4 * width, 8 * width),
        blocks_per_stage=1,
        shortcut=projected,
        stem_stride=2,
    )


MODEL = ModelInfo(build, Hyperparameters, smallest=17, layers=9)
