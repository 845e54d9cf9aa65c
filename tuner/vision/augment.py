"""Augmentation of a batch: random crops, flips, cutout, mixup and CutMix.

Resized crops: Szegedy et al. 2015, "Going Deeper with Convolutions", section 6. mixup: Zhang et al.
2018, "mixup: Beyond Empirical Risk Minimization". CutMix: Yun et al. 2019, "CutMix: Regularization
Strategy to Train Strong Classifiers with Localizable Features". As there, an image's share is drawn
from Beta(alpha, alpha), for each image instead of each batch, so that it is independent of
batch sizes and ranks.
"""

# N images, C channels, H W pixels, K classes, P = H * W * C bytes of one image

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuner.vision.recipe import Augmentation

WIDEST = 4 / 3  # the largest ratio of a resized crop's sides


@dataclass(frozen=True)
class Decisions:
    """Random decisions: tensors with an entry for each image."""

    def select(self, rows: slice) -> Self:
        return self.map_tensors(lambda values_N: values_N[rows])

    def to(self, device: torch.device) -> Self:
        return self.map_tensors(lambda values_N: values_N.to(device))

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The decisions with `change` applied to each tensor."""
        return type(self)(
            *(change(getattr(self, field.name)) for field in fields(self))
        )


@dataclass(frozen=True)
class Draws(Decisions):
    """top_N, left_N: the crop's position in the padded image, 0 to 2 * crop_padding px.

    row_N, column_N: the centre of the cut square, 0 to H - 1 and W - 1. window_N4: top, left,
    height and width of the resized crop, as shares of H and W.
    """

    flip_N: Tensor
    upside_down_N: Tensor
    top_N: Tensor
    left_N: Tensor
    row_N: Tensor
    column_N: Tensor
    window_N4: Tensor


def draw(
    count: int,
    *,
    image_size: int,
    augmentation: Augmentation,
    generator: torch.Generator,
) -> Draws:
    """The decisions for `count` images of `image_size` px, on the CPU.

    All but the windows are drawn, used or not, and the windows last: switching one augmentation on
    leaves the others as they are.
    """
    offsets = 2 * augmentation.crop_padding + 1

    def draw_integers(bound: int) -> Tensor:
        return torch.randint(bound, (count,), generator=generator)

    # One draw for both, whose low bit is that of `randint(2)`
    flips_N = draw_integers(4)
    return Draws(
        flips_N % 2 == 1,
        flips_N >= 2,
        draw_integers(offsets),
        draw_integers(offsets),
        draw_integers(image_size),
        draw_integers(image_size),
        _draw_windows(count, augmentation.crop_scale, generator),
    )


def _draw_windows(count: int, scale: float, generator: torch.Generator) -> Tensor:
    """window_N4 of an area uniform in [scale, 1] of the image's.

    Width / height is log-uniform in [3/4, 4/3], or in the part of it that fits into the image.
    """
    if scale == 1:
        return torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(count, 4)
    area_N, ratio_N, top_N, left_N = torch.rand(4, count, generator=generator)
    area_N = scale + (1 - scale) * area_N
    largest_log_N = (-area_N.log()).clamp(max=math.log(WIDEST))
    ratio_N = ((2 * ratio_N - 1) * largest_log_N).exp()
    height_N, width_N = (
        (area_N * ratio).sqrt().clamp(max=1) for ratio in (1 / ratio_N, ratio_N)
    )
    window = [
        (1 - height_N) * top_N,
        (1 - width_N) * left_N,
        height_N,
        width_N,
    ]
    return torch.stack(window, 1)


def crop_and_flip(
    rows_NP: Tensor,
    draws: Draws,
    *,
    channels: int,
    image_size: int,
    augmentation: Augmentation,
) -> Tensor:
    """Crop, then flip, each image by its draws; rows of uint8 in, rows of uint8 out.

    Padding is black, as in torchvision's RandomCrop. Resized crops are rows of float32.
    """
    if augmentation.crop_scale < 1:
        images_NHWC = rows_NP.view(len(rows_NP), image_size, image_size, channels)
        return _resize_crops(images_NHWC, draws, augmentation).flatten(1)
    padding = augmentation.crop_padding
    if not (padding or augmentation.flip or augmentation.vertical_flip):
        return rows_NP
    count = len(rows_NP)
    padded_size = image_size + 2 * padding
    images_NHWC = rows_NP.view(count, image_size, image_size, channels)
    if padding:
        images_NHWC = F.pad(images_NHWC, (0, 0, padding, padding, padding, padding))
    # One gather of pixels does both: the address of every output pixel in the padded batch
    y_NH, x_NW = _flip_axes(image_size, draws, augmentation)
    x_NW = x_NW + draws.left_N[:, None]
    image_N = torch.arange(count, device=rows_NP.device)
    y_NH = y_NH + draws.top_N[:, None] + padded_size * image_N[:, None]
    address_NHW = padded_size * y_NH[:, :, None] + x_NW[:, None, :]
    pixels = images_NHWC.view(-1, channels).index_select(0, address_NHW.view(-1))
    return pixels.view(count, -1)


def _flip_axes(
    image_size: int, draws: Draws, augmentation: Augmentation
) -> tuple[Tensor, Tensor]:
    """(y_NH, x_NW): the positions in each image, 0 to size - 1, of its flipped rows and columns."""
    span = torch.arange(image_size, device=draws.flip_N.device)
    backwards = image_size - 1 - span
    y_NH = x_NW = span.expand(len(draws.flip_N), -1)
    if augmentation.vertical_flip:
        y_NH = torch.where(draws.upside_down_N[:, None], backwards, span)
    if augmentation.flip:
        x_NW = torch.where(draws.flip_N[:, None], backwards, span)
    return y_NH, x_NW


def _resize_crops(
    images_NHWC: Tensor, draws: Draws, augmentation: Augmentation
) -> Tensor:
    """The windows of the images, resized to the images' size and flipped, in float32.

    Each axis by itself, columns first, so that whole rows of memory are copied and blended.
    """
    size = images_NHWC.shape[1]
    top_N1, left_N1, height_N1, width_N1 = draws.window_N4[:, :, None].unbind(1)
    y_NH, x_NW = _flip_axes(size, draws, augmentation)
    # Pixels' centres are at halves; beyond those at the image's edges nothing is known
    y_NH = (size * top_N1 + (y_NH + 0.5) * height_N1 - 0.5).clamp(0, size - 1)
    x_NW = (size * left_N1 + (x_NW + 0.5) * width_N1 - 0.5).clamp(0, size - 1)
    columns_NWHC = _interpolate_rows(images_NHWC.transpose(1, 2), x_NW)
    return _interpolate_rows(columns_NWHC.transpose(1, 2), y_NH)


def _interpolate_rows(images_NHWC: Tensor, y_NH: Tensor) -> Tensor:
    """The rows at the fractional positions `y_NH`, 0 to H - 1, each between its two neighbours."""
    count, size = y_NH.shape
    rows = images_NHWC.reshape(count * size, -1)
    above_NH = y_NH.long()
    image_N = torch.arange(count, device=y_NH.device)
    address_NH = above_NH + size * image_N[:, None]
    above = rows.index_select(0, address_NH.view(-1)).float()
    address_NH = address_NH + (above_NH < size - 1)
    below = rows.index_select(0, address_NH.view(-1)).float()
    # In place, and without lerp, whose rounding may differ with the size of a batch
    return (
        below.sub_(above)
        .mul_((y_NH - above_NH).view(-1, 1))
        .add_(above)
        .view_as(images_NHWC)
    )


def build_views(x_NCHW: Tensor, *, mirrored: bool, upside_down: bool) -> list[Tensor]:
    """The images as they are, then mirrored, then each of these upside down."""
    views = [x_NCHW, x_NCHW.flip(3)] if mirrored else [x_NCHW]
    return [*views, *(view.flip(2) for view in views)] if upside_down else views


def apply_cutout(x_NCHW: Tensor, draws: Draws, *, augmentation: Augmentation) -> Tensor:
    """Set a square of each normalised image to 0, the mean, in place: DeVries & Taylor 2017."""
    side = augmentation.cutout
    if not side:
        return x_NCHW
    top_N = draws.row_N - side // 2
    left_N = draws.column_N - side // 2
    cut_NHW = _build_rectangle_mask(
        top_N, top_N + side, left_N, left_N + side, size=x_NCHW.shape[-1]
    )
    return x_NCHW.masked_fill_(cut_NHW[:, None], 0)


def _build_rectangle_mask(
    top_N: Tensor, bottom_N: Tensor, left_N: Tensor, right_N: Tensor, *, size: int
) -> Tensor:
    """mask_NHW of the pixels in each image's rectangle."""
    span = torch.arange(size, device=top_N.device)
    rows_NH = (span >= top_N[:, None]) & (span < bottom_N[:, None])
    columns_NW = (span >= left_N[:, None]) & (span < right_N[:, None])
    return rows_NH[:, :, None] & columns_NW[:, None, :]


Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Mixes(Decisions):
    """How each image is mixed with its partner.

    The partner's pixels fill the rows top_N <= row < bottom_N of the columns left_N <= column <
    right_N; elsewhere a pixel is `blend_N` of the image's and the remainder of the partner's.
    `share_N` is the image's share of all pixels, and so of the label. In float64.
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
    """The mixes of `count` images, on the CPU; of mixup and CutMix each with probability 1/2."""
    mixup = augmentation.mixup
    cutmix = augmentation.cutmix
    cut_probability = 0.5 if mixup and cutmix else float(cutmix > 0)
    is_cut_N = rng.random(count) < cut_probability
    blend_N = rng.beta(mixup, mixup, count) if mixup else np.ones(count)
    kept_N = rng.beta(cutmix, cutmix, count) if cutmix else np.ones(count)
    side_N = np.rint(image_size * np.sqrt(1 - kept_N))
    side_N = side_N.astype(np.int64) * is_cut_N

    def draw_bounds() -> tuple[np.ndarray, np.ndarray]:
        """Along one axis; a square may be partly outside, as in the paper."""
        first_N = rng.integers(image_size, size=count) - side_N // 2
        return first_N.clip(0), (first_N + side_N).clip(0, image_size)

    (top_N, bottom_N), (left_N, right_N) = draw_bounds(), draw_bounds()
    cut_N = (bottom_N - top_N) * (right_N - left_N) / image_size**2
    blend_N = np.where(is_cut_N, 1.0, blend_N)
    drawn = (
        blend_N * (1 - cut_N),
        blend_N,
        top_N,
        bottom_N,
        left_N,
        right_N,
    )
    return Mixes(*map(torch.from_numpy, drawn))


def apply_mixes(own: Batch, partners: Batch, mixes: Mixes, *, classes: int) -> Batch:
    """(x_NCHW, shares_NK) of images mixed with their partners; the shares of an image sum to 1."""
    (x_NCHW, labels_N), (partner_NCHW, partner_labels_N) = own, partners
    cut = mixes.top_N, mixes.bottom_N, mixes.left_N, mixes.right_N
    cut_NHW = _build_rectangle_mask(*cut, size=x_NCHW.shape[-1])
    blend_N = mixes.blend_N.to(x_NCHW.dtype)
    kept_NHW = blend_N[:, None, None].masked_fill(cut_NHW, 0)
    mixed_NCHW = torch.lerp(partner_NCHW, x_NCHW, kept_NHW[:, None])
    share_N1 = mixes.share_N.to(x_NCHW.dtype)[:, None]
    shares_NK = torch.zeros(
        len(labels_N), classes, dtype=x_NCHW.dtype, device=x_NCHW.device
    )
    shares_NK.scatter_add_(1, labels_N[:, None], share_N1)
    return mixed_NCHW, shares_NK.scatter_add_(
        1, partner_labels_N[:, None], 1 - share_N1
    )
