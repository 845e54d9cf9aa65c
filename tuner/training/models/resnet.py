"""What the residual networks for small images share: the stem, a row of blocks, the head."""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Iterable

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.training.models.norm import norm_layer
from tuner.training.models.pool import GlobalMean


class ResNet(nn.Module):
    """A 3x3 stem of `width` channels, `blocks`, the global mean, and a linear head.

    `blocks` are made one after the other, after the stem; the last gives `features` channels.
    """

    def __init__(
        self,
        blocks: Iterable[nn.Module],
        *,
        in_channels: int,
        width: int,
        features: int,
        num_classes: int,
        norm: str,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        self.norm = norm_layer(norm, width)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(features, num_classes)
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
