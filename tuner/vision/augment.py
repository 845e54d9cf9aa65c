"""Whole-batch augmentation: random crop with padding, mirror, cutout.

The decisions are drawn apart from their application, so that an image undergoes the same on any
device and any number of ranks.
"""

# N images, H W pixels, C channels, P = H * W * C bytes of one image

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from tuner.vision.settings import ClassifierSettings


@dataclass(frozen=True, slots=True)
class Augmentation:
    """What is done to training images; `crop_padding` and `cutout` in px, 0 for neither.

    crop_fill: what the padding is, "black" or the image's own pixels, "reflect".
    alternating_flip: `flip` mirrors an image in every second epoch, not in each by chance. mixup,
    cutmix: alpha of the Beta distribution of the shares of two images, 0 for none; see `mixing`.
    """

    crop_padding: int = 0
    flip: bool = False
    cutout: int = 0
    alternating_flip: bool = False
    crop_fill: str = "black"
    mixup: float = 0.0
    cutmix: float = 0.0

    @classmethod
    def of(cls, settings: ClassifierSettings) -> Augmentation:
        """What `settings` name; their names are the same."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})

    @property
    def mixes(self) -> bool:
        """Whether an image is mixed with another one."""
        return self.mixup > 0 or self.cutmix > 0


@dataclass(frozen=True)
class Decisions:
    """Tensors with an entry for each image: of what is done to it."""

    def at(self, rows: slice) -> Self:
        """The decisions of some of the images."""
        return self.each(lambda values_N: values_N[rows])

    def to(self, device: torch.device) -> Self:
        """The same decisions on `device`."""
        return self.each(lambda values_N: values_N.to(device))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The decisions, each of whose tensors is changed alike."""
        return type(self)(*(change(getattr(self, field.name)) for field in fields(self)))


@dataclass(frozen=True)
class Draws(Decisions):
    """The random decisions, one of each an image.

    `top_N` and `left_N` place the crop in the padded image, from 0 to 2 * crop_padding px;
    `row_N` and `column_N` are the centre of the cut square, from 0 to H - 1 and W - 1.
    """

    flip_N: Tensor
    top_N: Tensor
    left_N: Tensor
    row_N: Tensor
    column_N: Tensor


def draw(
    count: int, *, image_size: int, augmentation: Augmentation, generator: torch.Generator
) -> Draws:
    """The decisions for `count` images of `image_size` px, on the CPU.

    All are drawn whether used or not: switching one augmentation on leaves the others as they are.
    """
    offsets = 2 * augmentation.crop_padding + 1

    def below(bound: int) -> Tensor:
        return torch.randint(bound, (count,), generator=generator)

    flip_N = below(2).bool()
    return Draws(flip_N, below(offsets), below(offsets), below(image_size), below(image_size))


def crop_and_flip(
    rows_NP: Tensor, draws: Draws, *, channels: int, image_size: int, augmentation: Augmentation
) -> Tensor:
    """Crop, then mirror, each image by its draws; rows of uint8 in, rows of uint8 out.

    Padding is black, as in torchvision's RandomCrop on images, or the image's reflection.
    """
    padding = augmentation.crop_padding
    if not (padding or augmentation.flip):
        return rows_NP
    reflects = augmentation.crop_fill == "reflect"
    count, padded_size = len(rows_NP), image_size + (0 if reflects else 2 * padding)
    images_NHWC = rows_NP.view(count, image_size, image_size, channels)
    if padding and not reflects:
        images_NHWC = F.pad(images_NHWC, (0, 0, padding, padding, padding, padding))
    # One gather of pixels does both: the address of every output pixel in the padded batch
    span = torch.arange(image_size, device=rows_NP.device)
    y_NH = span + draws.top_N[:, None]
    x_NW = span.expand(count, -1)
    if augmentation.flip:
        x_NW = torch.where(draws.flip_N[:, None], image_size - 1 - x_NW, x_NW)
    x_NW = x_NW + draws.left_N[:, None]
    if reflects:
        y_NH, x_NW = (_reflected(at - padding, image_size - 1) for at in (y_NH, x_NW))
    y_NH = y_NH + padded_size * torch.arange(count, device=rows_NP.device)[:, None]
    address_NHW = padded_size * y_NH[:, :, None] + x_NW[:, None, :]
    pixels = images_NHWC.view(-1, channels).index_select(0, address_NHW.view(-1))
    return pixels.view(count, -1)


def _reflected(position: Tensor, last: int) -> Tensor:
    """Positions beyond 0 and `last` mirrored at these, which are not repeated.

    >>> _reflected(torch.tensor([-2, -1, 0, 3, 4, 5]), 3).tolist()
    [2, 1, 0, 3, 2, 1]
    """
    return last - (last - position.abs()).abs()


def cut_out(x_NCHW: Tensor, draws: Draws, *, augmentation: Augmentation) -> Tensor:
    """Set a square of each normalised image to 0, the mean: DeVries & Taylor 2017, Cutout.

    Its centre is anywhere in the image, so part of it may fall outside. Works in place.
    """
    side = augmentation.cutout
    if not side:
        return x_NCHW
    span = torch.arange(x_NCHW.shape[-1], device=x_NCHW.device)

    def inside(centre_N: Tensor) -> Tensor:
        first_N1 = centre_N[:, None] - side // 2
        return (span >= first_N1) & (span < first_N1 + side)

    cut_NHW = inside(draws.row_N)[:, :, None] & inside(draws.column_N)[:, None, :]
    return x_NCHW.masked_fill_(cut_NHW[:, None], 0)
