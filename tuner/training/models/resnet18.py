"""ResNet-18 (He et al. 2016, table 1) with the stem that CIFAR's small images call for.

The ImageNet stem (7x7 stride 2, then pooling) would leave 8x8 of 32x32 before the first block: a
3x3 convolution of stride 1 without pooling takes its place.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.training.models.norm import norm_layer
from tuner.training.models.pool import GlobalMean

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


class ResNet18(nn.Module):
    """A 3x3 stem and 4 stages of 2 blocks of 64, 128, 256 and 512 channels; 11.2 M parameters."""

    def __init__(self, *, in_channels: int, num_classes: int, norm: str) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, WIDTHS[0], 3, padding=1, bias=False)
        self.norm = norm_layer(norm, WIDTHS[0])
        blocks = []
        for stage, width in enumerate(WIDTHS):
            before, stride = (WIDTHS[stage - 1], 2) if stage else (width, 1)
            blocks += [
                Block(before, width, stride=stride, norm=norm),
                Block(width, width, stride=1, norm=norm),
            ]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(WIDTHS[-1], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def layers(self) -> list[nn.Module]:
        """The layers of which this is the composition, for a split into stages."""
        return [self.stem, self.norm, nn.ReLU(), *self.blocks, GlobalMean(), self.head]

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """logits_NK."""
        x_NCHW = F.relu(self.norm(self.stem(x_NCHW)), inplace=True)
        logits_NK: Tensor = self.head(self.blocks(x_NCHW).mean((2, 3)))
        return logits_NK
