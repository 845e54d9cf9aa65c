"""ResNet-18 (He et al. 2016, table 1) with the stem that CIFAR's small images call for.

The ImageNet stem (7x7 stride 2, then pooling) would leave 8x8 of 32x32 before the first block: a
3x3 convolution of stride 1 without pooling takes its place.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.training.models.norm import norm_layer
from tuner.training.models.resnet import ResNet

WIDTHS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut: the identity, or a 1x1 convolution (option B)."""

    def __init__(self, in_channels: int, channels: int, *, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.norm1 = norm_layer(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = norm_layer(norm, channels)
        self.shortcut: nn.Module = nn.Identity()
        if in_channels != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False),
                norm_layer(norm, channels),
            )

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """The block's output, of `channels` channels."""
        out_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)), inplace=True)
        out_NCHW = self.norm2(self.conv2(out_NCHW))
        return F.relu(out_NCHW + self.shortcut(x_NCHW), inplace=True)


class ResNet18(ResNet):
    """A 3x3 stem and 4 stages of 2 blocks of 64, 128, 256 and 512 channels; 11.2 M parameters."""

    def __init__(self, *, in_channels: int, num_classes: int, norm: str) -> None:
        super().__init__(
            _blocks(norm),
            in_channels=in_channels,
            width=WIDTHS[0],
            features=WIDTHS[-1],
            num_classes=num_classes,
            norm=norm,
        )


def _blocks(norm: str) -> Iterator[Block]:
    for before, width in pairwise((WIDTHS[0], *WIDTHS)):
        yield Block(before, width, stride=1 if before == width else 2, norm=norm)
        yield Block(width, width, stride=1, norm=norm)
