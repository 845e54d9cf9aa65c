"""A network for few and fast epochs on small images, in the manner of airbench (Jordan 2024).

Its first convolution whitens patches and does not train; three blocks of two convolutions follow.
"Airbench: 94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv 2404.00498.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tuner.spec.settings import Settings
from tuner.vision.models._model import ModelInfo, Norm, Width

if TYPE_CHECKING:
    from torch import Tensor, nn

WIDER = (1, 4, 4)  # the blocks' channels in units of `width`
LOGIT_SCALE = 1 / 9


class Hyperparameters(Settings):
    width: Width = 64
    norm: Norm = "batch"


def build(*, in_channels: int, num_classes: int, width: int, norm: str) -> nn.Module:
    """Whitening, blocks of `width`, 4 `width` and 4 `width` channels, global max, linear."""
    from torch import nn

    from tuner.vision.models._layers import GlobalMax, Scale, Whitening, in_sequence

    whitening = Whitening(in_channels)
    channels = [whitening.out_channels, *(width * factor for factor in WIDER)]
    return in_sequence(
        whitening=whitening,
        gelu=nn.GELU(),
        blocks=nn.Sequential(*(_block(*step, norm=norm) for step in pairwise(channels))),
        max=GlobalMax(),
        head=nn.Linear(channels[-1], num_classes, bias=False),
        scale=Scale(LOGIT_SCALE),
    )


def _block(in_channels: int, channels: int, *, norm: str) -> nn.Module:
    """3x3 convolution - max pool - norm - GELU - 3x3 convolution - norm - GELU."""
    from torch import nn

    from tuner.vision.models._layers import in_sequence, norm_layer

    conv1 = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
    conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    for conv in (conv1, conv2):
        # As many channels as can pass on their input: signals and gradients flow at once
        nn.init.dirac_(conv.weight.data[: min(conv.in_channels, channels)])
    return in_sequence(
        conv1=conv1,
        pool=nn.MaxPool2d(2),
        norm1=norm_layer(norm, channels),
        gelu1=nn.GELU(),
        conv2=conv2,
        norm2=norm_layer(norm, channels),
        gelu2=nn.GELU(),
    )


def prepare(model: nn.Module, x_NCHW: Tensor) -> None:
    """Learn the whitening, which does not train, from training images."""
    whitening: Any = model.whitening
    whitening.learn(x_NCHW)


MODELS = {"speednet": ModelInfo(build, Hyperparameters, smallest=17, prepare=prepare)}
