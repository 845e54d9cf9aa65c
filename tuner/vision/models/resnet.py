"""Residual networks for small images: He et al., "Deep Residual Learning" (CVPR 2016).

ResNet-20 for CIFAR is that of section 4.2. ResNet-18, of table 1, has a 3x3 stem of stride 1 and no
pooling: the ImageNet stem would leave 8x8 px of 32x32 before the first block. ResNet-10, for photos
of some 64 px, has one block a stage, and a stem of stride 2, which makes a step on 64 px as fast as
one of ResNet-20 on 32 px.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.vision.models._model import ModelInfo, Normed, Widened

if TYPE_CHECKING:
    from torch import nn


def resnet10(*, in_channels: int, num_classes: int, width: int, norm: str) -> nn.Module:
    """4 stages of 1 block of `width`, 2, 4 and 8 `width` channels; 0.31 M parameters for 16."""
    from tuner.vision.models._resnet import build_projection, build_resnet

    widths = (width, 2 * width, 4 * width, 8 * width)
    return build_resnet(
        in_channels, num_classes, norm, widths, 1, build_projection, stem_stride=2
    )


def resnet18(*, in_channels: int, num_classes: int, norm: str) -> nn.Module:
    """4 stages of 2 blocks of 64, 128, 256 and 512 channels; 11.2 M parameters."""
    from tuner.vision.models._resnet import build_projection, build_resnet

    return build_resnet(
        in_channels, num_classes, norm, (64, 128, 256, 512), 2, build_projection
    )


def resnet20(*, in_channels: int, num_classes: int, norm: str) -> nn.Module:
    """3 stages of 3 blocks of 16, 32 and 64 channels; 0.27 M parameters."""
    from tuner.vision.models._resnet import Padded, build_resnet

    return build_resnet(in_channels, num_classes, norm, (16, 32, 64), 3, Padded)


MODELS = {
    "resnet10": ModelInfo(resnet10, Widened, smallest=17, layers=9),
    "resnet18": ModelInfo(resnet18, Normed, smallest=16, layers=13),
    "resnet20": ModelInfo(resnet20, Normed, smallest=8, layers=14),
}
