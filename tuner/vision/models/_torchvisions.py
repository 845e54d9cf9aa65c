"""Networks for photos, with torchvision's names in the state dict, so that its weights load.

MobileNetV3: Howard et al., "Searching for MobileNetV3" (ICCV 2019), tables 1 and 2. Residual
networks: He et al., "Deep Residual Learning" (CVPR 2016), table 1; their bottlenecks shrink the
image in the 3x3 convolution, not in the first 1x1 one as in the paper.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.vision.models._layers import GlobalMean, build_sequence, round_channels

STEM = 16  # channels
DROPOUT = 0.2
BLOCKS = {
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
}
WIDTHS = (64, 128, 256, 512)  # channels of the residual stages
EXPANSION = 4  # of a bottleneck's channels, in its last convolution


class Step(NamedTuple):
    """A row of the paper's tables. expanded, channels: of the block; hard: Hardswish, not ReLU."""

    kernel: int
    expanded: int
    channels: int
    squeezes: bool
    hard: bool
    stride: int


LARGE = (
    Step(3, 16, 16, False, False, 1),
    Step(3, 64, 24, False, False, 2),
    Step(3, 72, 24, False, False, 1),
    Step(5, 72, 40, True, False, 2),
    *[Step(5, 120, 40, True, False, 1)] * 2,
    Step(3, 240, 80, False, True, 2),
    Step(3, 200, 80, False, True, 1),
    *[Step(3, 184, 80, False, True, 1)] * 2,
    Step(3, 480, 112, True, True, 1),
    Step(3, 672, 112, True, True, 1),
    Step(5, 672, 160, True, True, 2),
    *[Step(5, 960, 160, True, True, 1)] * 2,
)
SMALL = (
    Step(3, 16, 16, True, False, 2),
    Step(3, 72, 24, False, False, 2),
    Step(3, 88, 24, False, False, 1),
    Step(5, 96, 40, True, True, 2),
    *[Step(5, 240, 40, True, True, 1)] * 2,
    Step(5, 120, 48, True, True, 1),
    Step(5, 144, 48, True, True, 1),
    Step(5, 288, 96, True, True, 2),
    *[Step(5, 576, 96, True, True, 1)] * 2,
)
# The layers, and the channels before the head
SIZES = {
    "large": (LARGE, 1280),
    "small": (SMALL, 1024),
}


def build_network(name: str, num_classes: int) -> nn.Module:
    """The network that torchvision calls `name`, for images of three channels."""
    if name in BLOCKS:
        return ResNet(BLOCKS[name], num_classes, bottleneck=name == "resnet50")
    return build_mobilenet_v3(name.removeprefix("mobilenet_v3_"), num_classes)


def build_mobilenet_v3(size: str, num_classes: int) -> nn.Module:
    """The network of the paper at width 1, for images of three channels."""
    steps, hidden = SIZES[size]
    widths = (STEM, *(step.channels for step in steps))
    wide = steps[-1].expanded
    features = nn.Sequential(
        _build_convolution(3, STEM, nn.Hardswish(), kernel=3, stride=2),
        *(
            InvertedResidual(before, step)
            for before, step in zip(widths, steps, strict=False)
        ),
        _build_convolution(widths[-1], wide, nn.Hardswish()),
    )
    classifier = nn.Sequential(
        nn.Linear(wide, hidden),
        nn.Hardswish(),
        nn.Dropout(DROPOUT),
        nn.Linear(hidden, num_classes),
    )
    model = build_sequence(features=features, mean=GlobalMean(), classifier=classifier)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out")
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model


def _build_convolution(
    before: int,
    after: int,
    *activation: nn.Module,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
) -> nn.Module:
    """Convolution - BatchNorm - activation, if any."""
    padding = kernel // 2
    conv = nn.Conv2d(
        before,
        after,
        kernel,
        stride,
        padding,
        groups=groups,
        bias=False,
    )
    norm = nn.BatchNorm2d(after, eps=1e-3, momentum=0.01)
    return nn.Sequential(conv, norm, *activation)


class Squeeze(nn.Module):
    """Channels scaled by what two 1x1 convolutions see in their means (squeeze-and-excite)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = round_channels(channels / 4)
        self.fc1 = nn.Conv2d(channels, narrow, 1)
        self.fc2 = nn.Conv2d(narrow, channels, 1)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        mean_NC11 = x_NCHW.mean((2, 3), keepdim=True)
        narrow_NC11 = F.relu(self.fc1(mean_NC11))
        scale_NC11 = F.hardsigmoid(self.fc2(narrow_NC11))
        return x_NCHW * scale_NC11


class InvertedResidual(nn.Module):
    """1x1 to more channels, a convolution of each channel, 1x1 back; plus the input if it fits."""

    def __init__(self, in_channels: int, step: Step) -> None:
        super().__init__()
        self.adds = step.stride == 1 and in_channels == step.channels
        activation = nn.Hardswish if step.hard else nn.ReLU
        wide = step.expanded
        layers = (
            [_build_convolution(in_channels, wide, activation())]
            if wide != in_channels
            else []
        )
        depthwise = _build_convolution(
            wide,
            wide,
            activation(),
            kernel=step.kernel,
            stride=step.stride,
            groups=wide,
        )
        layers.append(depthwise)
        if step.squeezes:
            layers.append(Squeeze(wide))
        layers.append(_build_convolution(wide, step.channels))
        self.block = nn.Sequential(*layers)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        out_NCHW: Tensor = self.block(x_NCHW)
        return out_NCHW + x_NCHW if self.adds else out_NCHW


class Residual(nn.Module):
    """Two 3x3 convolutions, or the bottleneck of 1x1, 3x3 and 1x1, beside a shortcut."""

    def __init__(
        self, in_channels: int, channels: int, stride: int, *, bottleneck: bool
    ) -> None:
        super().__init__()
        kernels = [3, 3]
        widths = [in_channels, channels, channels]
        if bottleneck:
            kernels = [1, 3, 1]
            widths.append(EXPANSION * channels)
        self.depth = len(kernels)
        shrinking = kernels.index(3)
        for index, (before, after) in enumerate(pairwise(widths)):
            kernel = kernels[index]
            step = stride if index == shrinking else 1
            conv = nn.Conv2d(
                before,
                after,
                kernel,
                step,
                padding=kernel // 2,
                bias=False,
            )
            self.add_module(f"conv{index + 1}", conv)
            self.add_module(f"bn{index + 1}", nn.BatchNorm2d(after))
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or in_channels != widths[-1]:
            out_channels = widths[-1]
            shortcut = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
            norm = nn.BatchNorm2d(out_channels)
            self.downsample = nn.Sequential(shortcut, norm)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        out_NCHW = x_NCHW
        for number in range(1, self.depth + 1):
            conv = self.get_submodule(f"conv{number}")
            norm = self.get_submodule(f"bn{number}")
            out_NCHW = norm(conv(out_NCHW))
            if number < self.depth:
                out_NCHW = F.relu(out_NCHW, inplace=True)
        return F.relu(out_NCHW + self.downsample(x_NCHW), inplace=True)


class ResNet(nn.Module):
    """A 7x7 stem, pooling to a quarter of the image, four stages of `blocks`, the mean, a head."""

    def __init__(
        self, blocks: Sequence[int], num_classes: int, *, bottleneck: bool
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        before = WIDTHS[0]
        for index, (channels, count) in enumerate(zip(WIDTHS, blocks, strict=True)):
            after = channels
            if bottleneck:
                after *= EXPANSION
            first_stride = 2 if index else 1
            strides = (first_stride, *[1] * (count - 1))
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
                nn.init.kaiming_normal_(
                    module.weight, mode="fan_out", nonlinearity="relu"
                )

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = self.bn1(self.conv1(x_NCHW))
        x_NCHW = self.maxpool(F.relu(x_NCHW, inplace=True))
        for number in range(1, len(WIDTHS) + 1):
            x_NCHW = self.get_submodule(f"layer{number}")(x_NCHW)
        logits_NK: Tensor = self.fc(x_NCHW.mean((2, 3)))
        return logits_NK
