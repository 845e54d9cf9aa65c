"""Residual networks for small images: a stem, stages of blocks, the global mean, a linear head."""

# N batch, C channels, H W pixels

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.vision.models._layers import GlobalMean, build_norm, build_sequence

# From (channels in, channels out, stride, norm) to what bypasses a block that changes the shape
Shortcut = Callable[[int, int, int, str], nn.Module]


def build_resnet(
    in_channels: int,
    num_classes: int,
    norm: str,
    widths: Sequence[int],
    blocks_per_stage: int,
    shortcut: Shortcut,
    *,
    stem_stride: int = 1,
) -> nn.Module:
    """A stage for each of `widths`, its channels; the image halves where the channels grow."""
    blocks: list[nn.Module] = []
    stem = nn.Conv2d(in_channels, widths[0], 3, stem_stride, padding=1, bias=False)
    for before, channels in pairwise((widths[0], *widths)):
        blocks.append(Block(before, channels, norm, shortcut))
        blocks += [
            Block(channels, channels, norm, shortcut)
            for _ in range(blocks_per_stage - 1)
        ]
    model = build_sequence(
        stem=stem,
        norm=build_norm(norm, widths[0]),
        relu=nn.ReLU(inplace=True),
        blocks=nn.Sequential(*blocks),
        mean=GlobalMean(),
        head=nn.Linear(widths[-1], num_classes),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is the identity where the shape stays."""

    def __init__(
        self, in_channels: int, channels: int, norm: str, shortcut: Shortcut
    ) -> None:
        super().__init__()
        stride = 1 if in_channels == channels else 2
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.norm1 = build_norm(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = build_norm(norm, channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1:
            self.shortcut = shortcut(in_channels, channels, stride, norm)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        out_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)), inplace=True)
        out_NCHW = self.norm2(self.conv2(out_NCHW))
        return F.relu(out_NCHW + self.shortcut(x_NCHW), inplace=True)


class Padded(nn.Module):
    """The paper's option A: every second pixel, and zeros for the new channels; no parameters."""

    def __init__(self, in_channels: int, channels: int, stride: int, norm: str) -> None:
        super().__init__()
        before = (channels - in_channels) // 2
        self.stride = stride
        self.padding = (before, channels - in_channels - before)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return F.pad(
            x_NCHW[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, *self.padding)
        )


def build_projection(
    in_channels: int, channels: int, stride: int, norm: str
) -> nn.Module:
    """The paper's option B: a 1x1 convolution and a norm."""
    convolution = nn.Conv2d(in_channels, channels, 1, stride, bias=False)
    return nn.Sequential(convolution, build_norm(norm, channels))
