"""The two-convolution network of PyTorch's CIFAR-10 and Ray Tune tutorials."""

# N batch, C channels, H W pixels, K classes

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Net(nn.Module):
    """Two 5x5 convolutions with pooling, then layers of `l1`, `l2` and `num_classes` units.

    Its first linear layer fixes the image size: it takes 3x32x32 and nothing else.
    """

    def __init__(self, *, in_channels: int, num_classes: int, l1: int, l2: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, l1)
        self.fc2 = nn.Linear(l1, l2)
        self.fc3 = nn.Linear(l2, num_classes)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        """logits_NK."""
        # The tutorials pool after the ReLU: the same values, of four times as many.
        x_NCHW = F.relu(F.max_pool2d(self.conv1(x_NCHW), 2))
        x_NCHW = F.relu(F.max_pool2d(self.conv2(x_NCHW), 2))
        x_ND = F.relu(self.fc1(x_NCHW.flatten(1)))
        logits_NK: Tensor = self.fc3(F.relu(self.fc2(x_ND)))
        return logits_NK
