"""The normalisation layer that a model's `norm` hyperparameter names."""

from __future__ import annotations

from math import gcd

from torch import nn

MOST_GROUPS = 8


def norm_layer(norm: str, channels: int) -> nn.Module:
    """BatchNorm ("batch") or GroupNorm ("group") over `channels`.

    GroupNorm takes the largest power of two of groups, at most 8, that divides `channels`; it
    treats each image alone, so it gives the same on any number of ranks.
    """
    if norm == "group":
        return nn.GroupNorm(gcd(channels, MOST_GROUPS), channels)
    assert norm == "batch", norm
    return nn.BatchNorm2d(channels)
