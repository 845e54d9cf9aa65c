"""Networks that torchvision has too: the same name, state dict and output, without torchvision.

Nothing here imports torch before a network is built, so that a spec is checked without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import nn


def _resnet(blocks: Sequence[int], num_classes: int, *, bottleneck: bool = False) -> nn.Module:
    from tuner.vision.models._imagenet_resnet import ResNet

    return ResNet(blocks, num_classes, bottleneck=bottleneck)


def _mobilenet_v3(size: Literal["small", "large"], num_classes: int) -> nn.Module:
    from tuner.vision.models._mobilenet_v3 import mobilenet_v3

    return mobilenet_v3(size, num_classes)


# By name: called with the number of classes, for images of three channels
NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": partial(_resnet, (2, 2, 2, 2)),
    "resnet34": partial(_resnet, (3, 4, 6, 3)),
    "resnet50": partial(_resnet, (3, 4, 6, 3), bottleneck=True),
    "mobilenet_v3_small": partial(_mobilenet_v3, "small"),
    "mobilenet_v3_large": partial(_mobilenet_v3, "large"),
}
