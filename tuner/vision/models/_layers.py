"""Layers that torch does not have, or not under the names of our hyperparameters."""

# N batch, C channels, H W pixels

from __future__ import annotations

from collections import OrderedDict
from math import gcd

from torch import Tensor, nn

MOST_GROUPS = 8


def build_sequence(
    kind: type[nn.Sequential] = nn.Sequential, /, **modules: nn.Module
) -> nn.Sequential:
    """The modules one after the other, under these names in the state dict; of class `kind`."""
    return kind(OrderedDict(modules))


def build_norm(norm: str, channels: int) -> nn.Module:
    """BatchNorm ("batch") or GroupNorm ("group") over `channels`.

    GroupNorm takes the largest power of two of groups, at most 8, that divides `channels`. It
    treats each image alone, so it gives the same on any number of ranks.
    """
    if norm == "group":
        return nn.GroupNorm(gcd(channels, MOST_GROUPS), channels)
    assert norm == "batch", norm
    return nn.BatchNorm2d(channels)


def round_channels(channels: float) -> int:
    """The nearest multiple of eight, at least eight; the next one if that loses a tenth."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


class GlobalMean(nn.Module):
    """The mean over all pixels."""

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return x_NCHW.mean((2, 3))
