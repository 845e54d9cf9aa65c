"""A data set of CIFAR-10's shape that can be learned: class k is a noisy texture of its own."""

from pathlib import Path

import numpy as np

from tuner.training.catalog import DatasetInfo
from tuner.training.data.image_set import ImageArrays

INFO = DatasetInfo(
    "textures:load",
    channels=3,
    image_size=32,
    num_classes=10,
    train=320,
    validation=100,
    test=100,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
    files=False,
)


def load(folder: Path, *, split_seed: int) -> ImageArrays:
    rng = np.random.default_rng(split_seed)
    count = INFO.train + INFO.validation + INFO.test
    labels = rng.integers(0, 10, count)
    tiles = rng.normal(0, 35, (10, 8, 8, 3))
    wholes = np.tile(tiles, (1, 5, 5, 1))
    corners = rng.integers(0, 8, (count, 2))
    images = np.stack(
        [
            wholes[label, top : top + 32, left : left + 32]
            for label, (top, left) in zip(labels, corners, strict=True)
        ]
    )
    images = images + 128 + rng.normal(0, 25, images.shape)
    ends = np.cumsum([INFO.train, INFO.validation])
    splits = dict(
        zip(("train", "validation", "test"), np.split(np.arange(count), ends), strict=True)
    )
    return ImageArrays(images.clip(0, 255).astype(np.uint8), labels.astype(np.int64), splits)
