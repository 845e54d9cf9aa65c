"""ResNet-18 (He et al. 2016, table 1) with the stem that CIFAR's small images call for.

The ImageNet stem (7x7 stride 2, then pooling) would leave 8x8 of 32x32 before the first block: a
3x3 convolution of stride 1 without pooling takes its place.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.classifier.models.norm import norm_layer
from tuner.classifier.models.resnet import ResNet


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

    widths = (64, 128, 256, 512)

    def stage(self, in_channels: int, channels: int, *, norm: str) -> Iterator[nn.Module]:
        """Blocks of which the first may change the channels."""
        yield Block(in_channels, channels, stride=1 if in_channels == channels else 2, norm=norm)
        yield Block(channels, channels, stride=1, norm=norm)
