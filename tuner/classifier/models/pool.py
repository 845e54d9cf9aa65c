"""Pooling as a layer, for models that are given as a list of layers."""

# N batch, C channels, H W pixels

from __future__ import annotations

from torch import Tensor, nn


class GlobalMean(nn.Module):
    """The mean over all pixels: x_NCHW to x_NC."""

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """x_NC."""
        return x_NCHW.mean((2, 3))
