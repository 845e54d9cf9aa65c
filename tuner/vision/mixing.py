"""Two images in one, and their labels: mixup and CutMix.

Zhang et al. 2018, "mixup: Beyond Empirical Risk Minimization"; Yun et al. 2019, "CutMix:
Regularization Strategy to Train Strong Classifiers with Localizable Features". As there, an image's
share is drawn from Beta(alpha, alpha), but for each image and not for each batch, so that no batch
size, micro-batch or number of ranks changes it.
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tuner.vision.augment import Augmentation, Decisions

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Mixes(Decisions):
    """How each image is mixed with its partner.

    The partner takes the rows from `top_N` to before `bottom_N` of the columns from `left_N` to
    before `right_N`; anywhere else a pixel is `blend_N` of the image's own and the rest of the
    partner's. `share_N` is the image's share of all pixels, and so of the label. In float64.
    """

    share_N: Tensor
    blend_N: Tensor
    top_N: Tensor
    bottom_N: Tensor
    left_N: Tensor
    right_N: Tensor


def draw_mixes(
    count: int, *, image_size: int, augmentation: Augmentation, rng: np.random.Generator
) -> Mixes:
    """The mixes of `count` images of `image_size` px, on the CPU.

    Of mixup and CutMix, where both are on, each image meets either with probability 1/2.
    """
    mixup, cutmix = augmentation.mixup, augmentation.cutmix
    is_cut_N = rng.random(count) < (0.5 if mixup and cutmix else float(cutmix > 0))
    blend_N = rng.beta(mixup, mixup, count) if mixup else np.ones(count)
    kept_N = rng.beta(cutmix, cutmix, count) if cutmix else np.ones(count)
    side_N = np.rint(image_size * np.sqrt(1 - kept_N)).astype(np.int64) * is_cut_N

    def bounds() -> tuple[np.ndarray, np.ndarray]:
        """Along one axis: a square may lie partly outside, as in the paper."""
        first_N = rng.integers(image_size, size=count) - side_N // 2
        return first_N.clip(0), (first_N + side_N).clip(0, image_size)

    (top_N, bottom_N), (left_N, right_N) = bounds(), bounds()
    cut_N = (bottom_N - top_N) * (right_N - left_N) / image_size**2
    blend_N = np.where(is_cut_N, 1.0, blend_N)
    drawn = (blend_N * (1 - cut_N), blend_N, top_N, bottom_N, left_N, right_N)
    return Mixes(*map(torch.from_numpy, drawn))


def mix(own: Batch, partners: Batch, mixes: Mixes, *, classes: int) -> Batch:
    """(x_NCHW, shares_NK) of images and labels and those of their partners.

    The shares of the classes are of the images' dtype and add up to 1 for each image.
    """
    (x_NCHW, labels_N), (partner_NCHW, partner_labels_N) = own, partners
    span = torch.arange(x_NCHW.shape[-1], device=x_NCHW.device)

    def inside(first_N: Tensor, end_N: Tensor) -> Tensor:
        return (span >= first_N[:, None]) & (span < end_N[:, None])

    rows_NH, columns_NW = inside(mixes.top_N, mixes.bottom_N), inside(mixes.left_N, mixes.right_N)
    cut_NHW = rows_NH[:, :, None] & columns_NW[:, None, :]
    blend_N = mixes.blend_N.to(x_NCHW.dtype)
    kept_NHW = blend_N[:, None, None].masked_fill(cut_NHW, 0)
    mixed_NCHW = torch.lerp(partner_NCHW, x_NCHW, kept_NHW[:, None])
    share_N1 = mixes.share_N.to(x_NCHW.dtype)[:, None]
    shares_NK = torch.zeros(len(labels_N), classes, dtype=x_NCHW.dtype, device=x_NCHW.device)
    shares_NK.scatter_add_(1, labels_N[:, None], share_N1)
    return mixed_NCHW, shares_NK.scatter_add_(1, partner_labels_N[:, None], 1 - share_N1)
