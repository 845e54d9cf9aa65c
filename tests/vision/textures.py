"""A data set of CIFAR-10's shape that can be learned: class k is a noisy texture of its own."""

from pathlib import Path

import numpy as np
from tiny_images import arrays, info, size

from tuner.vision.datasets._dataset import ImageArrays


def load(folder: Path, *, split_seed: int) -> ImageArrays:
    rng = np.random.default_rng(split_seed)
    count = size(INFO)
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
    images = (images + 128 + rng.normal(0, 25, images.shape)).clip(0, 255)
    return arrays(INFO, images, labels, np.arange(count))


INFO = info(load, train=320, validation=100, test=100)
