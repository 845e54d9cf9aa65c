"""A data set of CIFAR-10's shape with a few images: class k is a little brighter than k - 1."""

from pathlib import Path

import numpy as np

from tuner.training.catalog import DatasetInfo
from tuner.training.data.image_set import ImageArrays

# With batches of 16 the last one holds 1 image, so that a second rank gets none.
INFO = DatasetInfo(
    "tiny_images:load",
    channels=3,
    image_size=32,
    num_classes=10,
    train=49,
    validation=21,
    test=13,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
    files=False,
)


def load(folder: Path, *, split_seed: int) -> ImageArrays:
    rng = np.random.default_rng(split_seed)
    count = INFO.train + INFO.validation + INFO.test
    labels = np.arange(count) % 10
    images = rng.integers(0, 100, (count, 32, 32, 3)) + 15 * labels[:, None, None, None]
    positions = rng.permutation(count)
    ends = np.cumsum([INFO.train, INFO.validation])
    splits = dict(zip(("train", "validation", "test"), np.split(positions, ends), strict=True))
    return ImageArrays(images.astype(np.uint8), labels.astype(np.int64), splits)
