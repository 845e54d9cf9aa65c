"""What the residual networks for small images share: the stem, a row of blocks, the head."""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.classifier.models.norm import norm_layer
from tuner.classifier.models.pool import GlobalMean


class ResNet(nn.Module):
    """A 3x3 stem, stages of blocks, the global mean, and a linear head.

    widths: channels of each stage; the stem has those of the first.
    """

    widths: ClassVar[tuple[int, ...]]

    def __init__(self, *, in_channels: int, num_classes: int, norm: str) -> None:
        super().__init__()
        first, last = self.widths[0], self.widths[-1]
        self.stem = nn.Conv2d(in_channels, first, 3, padding=1, bias=False)
        self.norm = norm_layer(norm, first)
        stages = (self.stage(*step, norm=norm) for step in pairwise((first, *self.widths)))
        self.blocks = nn.Sequential(*chain.from_iterable(stages))
        self.head = nn.Linear(last, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def stage(self, in_channels: int, channels: int, *, norm: str) -> Iterator[nn.Module]:
        """The blocks of the stage of `channels` channels; the image halves where these grow."""
        raise NotImplementedError

    def layers(self) -> list[nn.Module]:
        """The layers of which this is the composition, for a split into stages."""
        return [self.stem, self.norm, nn.ReLU(), *self.blocks, GlobalMean(), self.head]

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """logits_NK."""
        x_NCHW = F.relu(self.norm(self.stem(x_NCHW)), inplace=True)
        logits_NK: Tensor = self.head(self.blocks(x_NCHW).mean((2, 3)))
        return logits_NK
