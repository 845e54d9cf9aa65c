"""The two-convolution network of PyTorch's CIFAR-10 and Ray Tune tutorials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from tuner.spec.settings import Settings
from tuner.vision.models._model import ModelInfo

if TYPE_CHECKING:
    from torch import nn


class Hyperparameters(Settings):
    l1: int = Field(120, ge=1, le=65536, description="units of the net's first layer")
    l2: int = Field(84, ge=1, le=65536, description="units of the net's second layer")


def build(*, in_channels: int, num_classes: int, l1: int, l2: int) -> nn.Module:
    """Two 5x5 convolutions with pooling, then layers of `l1`, `l2` and `num_classes` units."""
    from torch import nn

    from tuner.vision.models._layers import build_sequence

    return build_sequence(
        conv1=nn.Conv2d(in_channels, 6, 5),
        # The tutorials pool after the ReLU, which gives the same values
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(6, 16, 5),
        pool2=nn.MaxPool2d(2),
        relu2=nn.ReLU(),
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * 5 * 5, l1),
        relu3=nn.ReLU(),
        fc2=nn.Linear(l1, l2),
        relu4=nn.ReLU(),
        fc3=nn.Linear(l2, num_classes),
    )


MODELS = {"net": ModelInfo(build, Hyperparameters, smallest=32, largest=32, channels=3)}
