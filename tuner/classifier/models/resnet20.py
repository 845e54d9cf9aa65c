"""ResNet-20 for CIFAR: He et al., "Deep Residual Learning" (CVPR 2016), section 4.2."""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from tuner.classifier.models.norm import norm_layer
from tuner.classifier.models.resnet import ResNet

BLOCKS_A_STAGE = 3


class Block(nn.Module):
    """Two 3x3 convolutions beside an identity shortcut (the paper's option A).

    Where the block halves the image and doubles the channels, the shortcut takes every second
    pixel and fills the new channels with zeros, so it has no parameters.
    """

    def __init__(self, in_channels: int, channels: int, *, norm: str) -> None:
        super().__init__()
        self.stride = 1 if in_channels == channels else 2
        self.new_channels = channels - in_channels
        self.conv1 = nn.Conv2d(in_channels, channels, 3, self.stride, padding=1, bias=False)
        self.norm1 = norm_layer(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = norm_layer(norm, channels)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """The block's output, of `channels` channels."""
        out_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)), inplace=True)
        out_NCHW = self.norm2(self.conv2(out_NCHW))
        return F.relu(out_NCHW + self._shortcut(x_NCHW), inplace=True)

    def _shortcut(self, x_NCHW: Tensor) -> Tensor:
        if self.stride == 1:
            return x_NCHW
        half = self.new_channels // 2
        return F.pad(x_NCHW[:, :, ::2, ::2], (0, 0, 0, 0, half, self.new_channels - half))


class ResNet20(ResNet):
    """A 3x3 convolution and 3 stages of 3 blocks of 16, 32 and 64 channels; 0.27 M parameters."""

    widths = (16, 32, 64)

    def stage(self, in_channels: int, channels: int, *, norm: str) -> Iterator[nn.Module]:
        """Blocks of which the first may change the channels."""
        yield Block(in_channels, channels, norm=norm)
        for _ in range(BLOCKS_A_STAGE - 1):
            yield Block(channels, channels, norm=norm)
