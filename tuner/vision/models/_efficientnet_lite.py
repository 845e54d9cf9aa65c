"""EfficientNet-Lite's layers, with the names of the published weights in the state dict.

Tan & Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (ICML 2019),
table 1, without squeeze-excitation and with ReLU6 in place of swish; stem, head and the numbers of
blocks in the first and last stage are the same for every size. The layers follow
efficientnet-lite-pytorch 0.1.0 (copyright 2020 ML Illustrated, after EfficientNet-PyTorch by Luke
Melas-Kyriazi; Apache License 2.0), without its stochastic depth.
"""

# N batch, C channels, H W pixels

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuner.vision.models._layers import GlobalMean, build_sequence, round_channels

STEM = 32  # channels
HEAD = 1280  # features
_LEAST_VARIANCE = 1e-6  # of a channel's pixels, so that its root has a gradient


class Stage(NamedTuple):
    """A row of the paper's table. expansion: of the channels within a block."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


def build_efficientnet_lite(
    in_channels: int,
    num_classes: int,
    *,
    width: float,
    depth: float,
    dropout: float,
    levels: bool,
) -> nn.Module:
    """The network whose stages have `width` times as many channels and `depth` times the blocks.

    levels: as of `Leveled`.
    """
    blocks: list[nn.Module] = []
    features = HEAD
    before = STEM
    for stage in STAGES:
        is_scaled = stage not in (STAGES[0], STAGES[-1])
        channels = round_channels(width * stage.channels)
        for number in range(ceil(depth * stage.blocks) if is_scaled else stage.blocks):
            stride = 1 if number else stage.stride
            blocks.append(
                Block(before, channels, stage.kernel, stride, stage.expansion)
            )
            before = channels
            features += 2 * channels if levels else 0
    model = build_sequence(
        Leveled if levels else nn.Sequential,
        _conv_stem=Convolution(in_channels, STEM, 3, stride=2),
        _bn0=_build_norm(STEM),
        _relu0=nn.ReLU6(inplace=True),
        _blocks=nn.Sequential(*blocks),
        _conv_head=Convolution(before, HEAD, 1),
        _bn1=_build_norm(HEAD),
        _relu1=nn.ReLU6(inplace=True),
        _mean=GlobalMean(),
        _dropout=nn.Dropout(dropout),
        _fc=nn.Linear(features, num_classes),
    )
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out")
    return model


class Leveled(nn.Sequential):
    """The layers in their order, and a head that sees every level.

    Beside the last features the head gets the mean and the standard deviation of each channel after
    each block. Evci et al. 2022, "Head2Toe: Utilizing Intermediate Representations for Better
    Transfer Learning": the last features leave out what the classes of the weights do not need.
    """

    def forward(self, x_NCHW: Tensor) -> Tensor:
        levels: list[Tensor] = []
        out: Tensor = x_NCHW
        for name, layer in self.named_children():
            if name == "_blocks":
                for block in layer.children():
                    out = block(out)
                    levels += _compute_moments(out)
            elif name == "_mean":
                out = torch.cat([layer(out), *levels], 1)
            else:
                out = layer(out)
        return out


class SideBySide(nn.Module):
    """`networks` without their heads, each under its name, and one head on all their features."""

    def __init__(self, networks: Mapping[str, nn.Module], num_classes: int) -> None:
        super().__init__()
        features = 0
        for name, network in networks.items():
            features += network.get_parameter("_fc.weight").shape[1]
            network.set_submodule("_fc", nn.Identity())
            self.add_module(name, network)
        self._names = tuple(networks)
        self._fc = nn.Linear(features, num_classes)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        features = [self.get_submodule(name)(x_NCHW) for name in self._names]
        logits_NK: Tensor = self._fc(torch.cat(features, 1))
        return logits_NK


def _compute_moments(x_NCHW: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation over the pixels, mean_NC and std_NC."""
    mean_NC11 = x_NCHW.mean((2, 3), keepdim=True)
    variance_NC = (x_NCHW - mean_NC11).square().mean((2, 3))
    return mean_NC11.flatten(1), (variance_NC + _LEAST_VARIANCE).sqrt()


def _build_norm(channels: int) -> nn.Module:
    # The source's momentum of 0.01 lags behind weights that are fine-tuned for a few hundred steps
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.1)


class Convolution(nn.Conv2d):
    """A convolution whose output has 1 / stride of the pixels, rounded up.

    Of an even number of pixels a stride of 2 leaves out none at the upper left, as TensorFlow's
    padding "SAME".
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        padding = kernel // 2 if stride == 1 else 0
        shape = (in_channels, out_channels, kernel, stride, padding)
        super().__init__(*shape, groups=groups, bias=False)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        if self.stride[0] > 1:
            height, width = (
                self.kernel_size[0] - 2 + size % 2 for size in x_NCHW.shape[2:]
            )
            left = width // 2
            top = height // 2
            x_NCHW = F.pad(x_NCHW, (left, width - left, top, height - top))
        return super().forward(x_NCHW)


class Block(nn.Module):
    """1x1 to more channels, a convolution of each channel, 1x1 back; plus the input if it fits."""

    def __init__(
        self, in_channels: int, channels: int, kernel: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        wide = expansion * in_channels
        self.adds = stride == 1 and in_channels == channels
        self.expands = expansion > 1
        if self.expands:
            self._expand_conv = Convolution(in_channels, wide, 1)
            self._bn0 = _build_norm(wide)
        self._depthwise_conv = Convolution(
            wide, wide, kernel, stride=stride, groups=wide
        )
        self._bn1 = _build_norm(wide)
        self._project_conv = Convolution(wide, channels, 1)
        self._bn2 = _build_norm(channels)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        out_NCHW: Tensor = x_NCHW
        if self.expands:
            out_NCHW = F.relu6(self._bn0(self._expand_conv(out_NCHW)), inplace=True)
        out_NCHW = F.relu6(self._bn1(self._depthwise_conv(out_NCHW)), inplace=True)
        out_NCHW = self._bn2(self._project_conv(out_NCHW))
        return out_NCHW + x_NCHW if self.adds else out_NCHW
