"""An epoch: its randomness, the order of its images, and each rank's share of its batches.

All randomness of an epoch is a function of (seed, epoch): nothing needs saving but the epoch, and
an image is augmented alike on any number of ranks.
"""

# N images, C channels, H W pixels

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch
from torch import Tensor

from tuner.vision.augment import Draws, Mixes, draw, draw_mixes
from tuner.vision.recipe import Augmentation

_MIXES = 2  # the stream of mixing, beside those of the epochs


def compute_seed(*numbers: int) -> int:
    """A seed from several numbers, such that similar ones lead to unrelated streams."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


@contextmanager
def seed_generators(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Within it all global generators begin at `seed`; afterwards they are where they were.

    For a network that draws by itself: Dropout uses torch's generator, others Python's or NumPy's.
    device: whose generator is meant beside the CPU's.
    """
    on_cuda = device is not None and device.type == "cuda"
    python = random.getstate()
    arrays = np.random.get_state()
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        torch.default_generator.manual_seed(seed)
        if on_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's share of a global batch: positions in the epoch's order.

    It holds `count` images, of `global_count` over all ranks. A rank without images in a short last
    batch gets the batch's first with a count of 0, to take part in the reduction of gradients.
    """

    positions: slice
    count: int
    global_count: int


def iterate_shards(
    count: int, *, batch_size: int, rank: int = 0, world_size: int = 1
) -> Iterator[Shard]:
    """`count` positions in global batches; over the ranks each position counts exactly once."""
    for start in range(0, count, batch_size):
        stop = min(start + batch_size, count)
        images = len(range(start + rank, stop, world_size))
        positions = (
            slice(start + rank, stop, world_size) if images else slice(start, start + 1)
        )
        yield Shard(positions, images, stop - start)


def split_shard(shard: Shard, *, size: int, world_size: int) -> list[Shard]:
    """`shard` in consecutive parts of at most `size` images, equally many on every rank."""
    first = shard.positions.start
    step = shard.positions.step or 1
    images = range(first, shard.positions.stop, step)[: shard.count]
    parts = []
    for start in range(0, ceil(shard.global_count / world_size), size):
        part = images[start : start + size]
        positions = (
            slice(part.start, part.stop, step) if part else slice(first, first + 1)
        )
        parts.append(Shard(positions, len(part), shard.global_count))
    return parts


@dataclass(frozen=True, eq=False)
class Epoch:
    """One epoch over a split: the order of its images, and the random decisions for each.

    The order is on the images' device, the draws are on the device that trains. If images are
    mixed, `partners` is the same epoch one position on, so that each image's partner is the next,
    and the last image's the first.
    """

    order_N: Tensor
    draws: Draws
    partners: Epoch | None = None
    mixes: Mixes | None = None


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
    """The images `rows_N` in the order of an epoch, with their draws; home: their device."""
    generator = torch.Generator().manual_seed(compute_seed(seed, epoch))
    permutation_N = torch.randperm(len(rows_N), generator=generator)
    draws = draw(
        len(rows_N),
        image_size=image_size,
        augmentation=augmentation,
        generator=generator,
    )
    planned = Epoch(rows_N[permutation_N].to(home or device), draws.to(device))
    if not (augmentation.mixup or augmentation.cutmix):
        return planned
    mixes = draw_mixes(
        len(rows_N),
        image_size=image_size,
        augmentation=augmentation,
        rng=np.random.default_rng([seed, epoch, _MIXES]),
    )
    partners = Epoch(
        planned.order_N.roll(-1),
        planned.draws.map_tensors(lambda each_N: each_N.roll(-1, 0)),
    )
    return replace(planned, partners=partners, mixes=mixes.to(device))
