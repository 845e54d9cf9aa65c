"""An epoch: the order of its images, what is drawn for each, and each rank's share of its batches.

All randomness of an epoch is a function of (seed, epoch): nothing needs saving but the epoch, and
the same images meet the same augmentation on any number of ranks.
"""

# N images, C channels, H W pixels

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuner.vision.augment import Augmentation, Draws, Mixes, draw, draw_mixes
from tuner.vision.randomness import mixed

if TYPE_CHECKING:
    from tuner.vision.settings import ClassifierSettings

_FLIPS, _MIXES = 1, 2  # tell the streams of the first flips and of mixing from those of the epochs


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's share of one global batch: positions in the epoch's order.

    It holds `count` images, of `global_count` over all ranks. A rank left without images in a
    short last batch gets the batch's first with a count of 0: it must take part in the reduction
    of gradients, where it adds nothing.
    """

    positions: slice
    count: int
    global_count: int


def shards(count: int, *, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[Shard]:
    """`count` positions in global batches of `batch_size`, the last one shorter, for one rank.

    Over the ranks of [0, world_size) each position counts exactly once.
    """
    for start in range(0, count, batch_size):
        stop = min(start + batch_size, count)
        own = len(range(start + rank, stop, world_size))
        positions = slice(start + rank, stop, world_size) if own else slice(start, start + 1)
        yield Shard(positions, own, stop - start)


def micro_shards(shard: Shard, *, size: int, world_size: int = 1) -> list[Shard]:
    """`shard` in consecutive parts of at most `size` images, equally many on every rank."""
    first, step = shard.positions.start, shard.positions.step or 1
    own = range(first, shard.positions.stop, step)[: shard.count]
    parts = []
    for start in range(0, ceil(shard.global_count / world_size), size):
        part = own[start : start + size]
        positions = slice(part.start, part.stop, step) if part else slice(first, first + 1)
        parts.append(Shard(positions, len(part), shard.global_count))
    return parts


def trained_images(count: int, settings: ClassifierSettings) -> int:
    """How many of `count` images an epoch trains on, those that fill its last batch included."""
    size = settings.batch_size
    batches = count // size if settings.last_batch == "drop" else ceil(count / size)
    return count if settings.last_batch == "short" else batches * size


@dataclass(frozen=True, eq=False)
class Epoch:
    """One epoch over a split: the order of its images, and what is drawn for each.

    The order lies where the images do, the draws on the device that trains. Where images are mixed,
    `partners` is the same epoch one position on: each image's partner is the next, the last one's
    the first. augmented: (x_NCHW, labels_N) of all positions, where they were computed at once.
    """

    order_N: Tensor
    draws: Draws
    partners: Epoch | None = None
    mixes: Mixes | None = None
    augmented: tuple[Tensor, Tensor] | None = None

    def with_mixes(self, mixes: Mixes) -> Epoch:
        """This epoch with its images mixed."""
        next_draws = self.draws.each(lambda values_N: values_N.roll(-1))
        return replace(self, partners=Epoch(self.order_N.roll(-1), next_draws), mixes=mixes)

    def of(self, count: int) -> Epoch:
        """This epoch with `count` positions: after the last one it begins again."""
        if count <= len(self.order_N):
            return self
        position_N = torch.arange(count) % len(self.order_N)

        def again(values_N: Tensor) -> Tensor:
            return values_N[position_N.to(values_N.device)]

        return Epoch(
            again(self.order_N),
            self.draws.each(again),
            self.partners and self.partners.of(count),
            self.mixes and self.mixes.each(again),
        )


def plan_epoch(
    rows_N: Tensor,
    *,
    seed: int,
    epoch: int,
    image_size: int,
    augmentation: Augmentation,
    device: torch.device,
    home: torch.device | None = None,
) -> Epoch:
    """The images `rows_N` in the order of epoch number `epoch`, a permutation, with their draws.

    home: where the images lie, `device` unless set.
    """
    generator = torch.Generator().manual_seed(mixed(seed, epoch))
    permutation_N = torch.randperm(len(rows_N), generator=generator)
    draws = draw(len(rows_N), image_size=image_size, augmentation=augmentation, generator=generator)
    if augmentation.alternating_flip:
        first_N = torch.Generator().manual_seed(mixed(seed, 0, _FLIPS))
        flip_N = torch.randint(2, (len(rows_N),), generator=first_N)[permutation_N]
        draws = replace(draws, flip_N=(flip_N + epoch) % 2 == 1)
    planned = Epoch(rows_N[permutation_N].to(home or device), draws.to(device))
    if not augmentation.mixes:
        return planned
    mixes = draw_mixes(
        len(rows_N),
        image_size=image_size,
        augmentation=augmentation,
        rng=np.random.default_rng([seed, epoch, _MIXES]),
    )
    return planned.with_mixes(mixes.to(device))
