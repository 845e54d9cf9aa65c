"""MobileNetV3: Howard et al., "Searching for MobileNetV3" (ICCV 2019), tables 1 and 2.

The names in the state dict are torchvision's, so that its weights load.
"""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from typing import Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.vision.models._layers import GlobalMean, in_sequence

STEM = 16  # channels
DROPOUT = 0.2


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
SIZES = {"large": (LARGE, 1280), "small": (SMALL, 1024)}  # and the channels before the head


def mobilenet_v3(size: Literal["small", "large"], num_classes: int) -> nn.Module:
    """The network of the paper at width 1, for images of three channels."""
    steps, hidden = SIZES[size]
    widths = (STEM, *(step.channels for step in steps))
    wide = steps[-1].expanded
    features = nn.Sequential(
        _convolved(3, STEM, nn.Hardswish(), kernel=3, stride=2),
        *(InvertedResidual(before, step) for before, step in zip(widths, steps, strict=False)),
        _convolved(widths[-1], wide, nn.Hardswish()),
    )
    classifier = nn.Sequential(
        nn.Linear(wide, hidden), nn.Hardswish(), nn.Dropout(DROPOUT), nn.Linear(hidden, num_classes)
    )
    model = in_sequence(features=features, mean=GlobalMean(), classifier=classifier)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out")
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model


def _convolved(
    before: int,
    after: int,
    activation: nn.Module | None,
    *,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
) -> nn.Module:
    """Convolution - BatchNorm - activation."""
    padding = kernel // 2
    conv = nn.Conv2d(before, after, kernel, stride, padding, groups=groups, bias=False)
    norm = nn.BatchNorm2d(after, eps=1e-3, momentum=0.01)
    return nn.Sequential(conv, norm, *([activation] if activation else []))


class Squeeze(nn.Module):
    """Channels scaled by what two 1x1 convolutions see in their means (squeeze-and-excite)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = _to_eights(channels / 4)
        self.fc1 = nn.Conv2d(channels, narrow, 1)
        self.fc2 = nn.Conv2d(narrow, channels, 1)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """The image, each channel times a factor of 0 to 1."""
        mean_NC11 = x_NCHW.mean((2, 3), keepdim=True)
        return x_NCHW * F.hardsigmoid(self.fc2(F.relu(self.fc1(mean_NC11))))


def _to_eights(channels: float) -> int:
    """The nearest multiple of eight, at least eight, and the next one if that loses a tenth."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


class InvertedResidual(nn.Module):
    """1x1 to more channels, a convolution of each channel, 1x1 back; plus the input if it fits."""

    def __init__(self, in_channels: int, step: Step) -> None:
        super().__init__()
        self.adds = step.stride == 1 and in_channels == step.channels
        activation = nn.Hardswish if step.hard else nn.ReLU
        wide = step.expanded
        layers = [_convolved(in_channels, wide, activation())] if wide != in_channels else []
        each = {"kernel": step.kernel, "stride": step.stride, "groups": wide}
        layers.append(_convolved(wide, wide, activation(), **each))
        if step.squeezes:
            layers.append(Squeeze(wide))
        self.block = nn.Sequential(*layers, _convolved(wide, step.channels, None))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """The block's output, of `step.channels` channels."""
        out_NCHW: Tensor = self.block(x_NCHW)
        return out_NCHW + x_NCHW if self.adds else out_NCHW
