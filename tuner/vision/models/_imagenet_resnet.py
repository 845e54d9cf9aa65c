"""Residual networks for photos: He et al., "Deep Residual Learning" (CVPR 2016), table 1.

Bottlenecks shrink the image in their 3x3 convolution, not in the first 1x1 one as in the paper. The
names in the state dict are torchvision's, so that its weights load.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

WIDTHS = (64, 128, 256, 512)  # channels of the stages
EXPANSION = 4  # of a bottleneck's channels, in its last convolution


class Residual(nn.Module):
    """Two 3x3 convolutions, or the bottleneck of 1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(self, in_channels: int, channels: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        kernels = [1, 3, 1] if bottleneck else [3, 3]
        widths = [in_channels, channels, channels, EXPANSION * channels][: len(kernels) + 1]
        self.depth, shrinking = len(kernels), kernels.index(3)
        for index, (before, after) in enumerate(pairwise(widths)):
            kernel, step = kernels[index], stride if index == shrinking else 1
            conv = nn.Conv2d(before, after, kernel, step, padding=kernel // 2, bias=False)
            self.add_module(f"conv{index + 1}", conv)
            self.add_module(f"bn{index + 1}", nn.BatchNorm2d(after))
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or in_channels != widths[-1]:
            shortcut = nn.Conv2d(in_channels, widths[-1], 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(widths[-1]))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """The block's output, of the channels of its last convolution."""
        out_NCHW = x_NCHW
        for number in range(1, self.depth + 1):
            conv, norm = self.get_submodule(f"conv{number}"), self.get_submodule(f"bn{number}")
            out_NCHW = norm(conv(out_NCHW))
            if number < self.depth:
                out_NCHW = F.relu(out_NCHW, inplace=True)
        return F.relu(out_NCHW + self.downsample(x_NCHW), inplace=True)


class ResNet(nn.Module):
    """A 7x7 stem and pooling to a quarter of the image, four stages, the global mean, a head.

    blocks: of each stage.
    """

    def __init__(self, blocks: Sequence[int], num_classes: int, *, bottleneck: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        before = WIDTHS[0]
        for index, (channels, count) in enumerate(zip(WIDTHS, blocks, strict=True)):
            after = channels * (EXPANSION if bottleneck else 1)
            strides = (2 if index else 1, *[1] * (count - 1))
            inputs = (before, *[after] * (count - 1))
            stage = [
                Residual(width, channels, stride, bottleneck=bottleneck)
                for width, stride in zip(inputs, strides, strict=True)
            ]
            self.add_module(f"layer{index + 1}", nn.Sequential(*stage))
            before = after
        self.fc = nn.Linear(before, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """logits_NK."""
        x_NCHW = self.maxpool(F.relu(self.bn1(self.conv1(x_NCHW)), inplace=True))
        for number in range(1, len(WIDTHS) + 1):
            x_NCHW = self.get_submodule(f"layer{number}")(x_NCHW)
        logits_NK: Tensor = self.fc(x_NCHW.mean((2, 3)))
        return logits_NK
