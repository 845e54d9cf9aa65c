"""Layers that torch does not have, or not under the names of our hyperparameters."""

# N batch, C channels, H W pixels, M patches, P values of a patch

from __future__ import annotations

from collections import OrderedDict
from math import gcd

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOST_GROUPS = 8
PATCH = 2  # px
SHRINK = 5e-4  # added to the variances, so that directions of mere noise are not blown up


def in_sequence(**modules: nn.Module) -> nn.Sequential:
    """The modules one after the other, under these names in the state dict."""
    return nn.Sequential(OrderedDict(modules))


def norm_layer(norm: str, channels: int) -> nn.Module:
    """BatchNorm ("batch") or GroupNorm ("group") over `channels`.

    GroupNorm takes the largest power of two of groups, at most 8, that divides `channels`. It
    treats each image alone, so it gives the same on any number of ranks.
    """
    if norm == "group":
        return nn.GroupNorm(gcd(channels, MOST_GROUPS), channels)
    assert norm == "batch", norm
    return nn.BatchNorm2d(channels)


class GlobalMean(nn.Module):
    """The mean over all pixels."""

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return x_NCHW.mean((2, 3))


class GlobalMax(nn.Module):
    """The maximum over all pixels."""

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return x_NCHW.amax((2, 3))


class Scale(nn.Module):
    """A constant factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Whitening(nn.Module):
    """Patches of 2x2 px in the directions of their principal components, each of variance 1.

    Every direction comes with both signs, for the activation that follows. Only the bias trains.
    """

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        size = in_channels * PATCH**2
        self.out_channels = 2 * size
        self.weight: Tensor
        self.register_buffer("weight", self._kernels(torch.eye(size), in_channels))
        self.bias = nn.Parameter(torch.zeros(self.out_channels))

    @staticmethod
    def _kernels(directions_PP: Tensor, channels: int) -> Tensor:
        return torch.cat([directions_PP, -directions_PP]).view(-1, channels, PATCH, PATCH)

    @torch.no_grad()
    def learn(self, x_NCHW: Tensor) -> None:
        """Set the directions from images as the network will see them."""
        x_NCHW = x_NCHW.to(torch.promote_types(x_NCHW.dtype, torch.float32))
        channels = x_NCHW.shape[1]
        patches_NPM = F.unfold(x_NCHW, PATCH)
        patches_MP = patches_NPM.transpose(1, 2).flatten(0, 1)
        patches_MP = patches_MP - patches_MP.mean(0)
        covariance_PP = (patches_MP.T @ patches_MP / len(patches_MP)).double().cpu()
        variances_P, directions_PP = torch.linalg.eigh(covariance_PP)
        scaled_PP = (directions_PP / (variances_P.clamp_min(0) + SHRINK).sqrt()).T
        self.weight.copy_(self._kernels(scaled_PP, channels))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """One px smaller on each axis, `out_channels` channels."""
        return F.conv2d(x_NCHW, self.weight, self.bias)
