"""A network for few and fast epochs on small images, in the manner of airbench (Jordan 2024).

Its first convolution whitens patches and does not train; three blocks of two convolutions follow.
"Airbench: 94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv 2404.00498.
"""

# N batch, C channels, H W pixels, K classes, M patches, P values of a patch

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuner.classifier.models.norm import norm_layer

PATCH = 2  # px
SHRINK = 5e-4  # added to the variances, so that directions of mere noise are not blown up
WIDER = (1, 4, 4)  # the blocks' channels in units of `width`
LOGIT_SCALE = 1 / 9
FAST_MOMENTUM = 0.4  # of BatchNorm's statistics, which a few hundred steps must settle


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


class Block(nn.Module):
    """3x3 convolution - max pool - norm - GELU - 3x3 convolution - norm - GELU."""

    def __init__(self, in_channels: int, channels: int, *, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        self.norm1 = norm_layer(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = norm_layer(norm, channels)
        for conv in (self.conv1, self.conv2):
            # As many channels as can pass on their input: signals and gradients flow at once.
            passed = min(conv.in_channels, channels)
            nn.init.dirac_(conv.weight.data[:passed])

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """Half the size, `channels` channels."""
        x_NCHW = F.gelu(self.norm1(F.max_pool2d(self.conv1(x_NCHW), 2)))
        return F.gelu(self.norm2(self.conv2(x_NCHW)))


class SpeedNet(nn.Module):
    """Whitening, blocks of `width`, 4 `width` and 4 `width` channels, global max, linear."""

    def __init__(self, *, in_channels: int, num_classes: int, width: int, norm: str) -> None:
        super().__init__()
        self.whitening = Whitening(in_channels)
        channels = [self.whitening.out_channels, *(width * factor for factor in WIDER)]
        self.blocks = nn.Sequential(
            *(Block(before, after, norm=norm) for before, after in pairwise(channels))
        )
        self.head = nn.Linear(channels[-1], num_classes, bias=False)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = FAST_MOMENTUM

    def prepare(self, x_NCHW: Tensor) -> None:
        """Learn from training images, before training, what does not train: the whitening."""
        self.whitening.learn(x_NCHW)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """logits_NK."""
        x_NCHW = self.blocks(F.gelu(self.whitening(x_NCHW)))
        logits_NK: Tensor = self.head(x_NCHW.amax((2, 3))) * LOGIT_SCALE
        return logits_NK
