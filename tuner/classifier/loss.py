"""What is minimised, and what an evaluation counts."""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Sums over images, computed in `dtype`, since autocast's half precision has too few digits.

    smoothing: of the labels, in training alone. test_time_flip: an evaluation averages the logits
    of an image and its mirror image.
    """

    dtype: torch.dtype
    smoothing: float = 0.0
    test_time_flip: bool = False

    def training(self, logits_NK: Tensor, labels_N: Tensor) -> Tensor:
        """The sum of what is minimised."""
        return self._sum(logits_NK, labels_N, self.smoothing)

    def views(self, x_NCHW: Tensor) -> list[Tensor]:
        """The variants of these images that an evaluation averages over."""
        return [x_NCHW, x_NCHW.flip(3)] if self.test_time_flip else [x_NCHW]

    def evaluated(self, views: Sequence[Tensor], labels_N: Tensor) -> Tensor:
        """(sum of the loss, number right), in float64, by the logits_NK of each view."""
        logits_NK = torch.stack(list(views)).mean(0)
        right = (logits_NK.argmax(1) == labels_N).sum()
        return torch.stack([self._sum(logits_NK, labels_N).double(), right.double()])

    def _sum(self, logits_NK: Tensor, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
        logits_NK = logits_NK.to(self.dtype)
        return F.cross_entropy(logits_NK, labels_N, reduction="sum", label_smoothing=smoothing)
