"""Data sets of CIFAR-10's shape with a few images; here class k is a little brighter than k - 1."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays


def info(
    load: Callable[..., ImageArrays], *, train: int, validation: int, test: int
) -> DatasetInfo:
    return DatasetInfo(
        load,
        channels=3,
        image_size=32,
        classes=tuple("0123456789"),
        train=train,
        validation=validation,
        test=test,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        files=False,
        title="tiny images",
        origin="a random number generator",
        licence="none needed",
    )


def size(of: DatasetInfo) -> int:
    return of.train + of.validation + of.test


def arrays(
    of: DatasetInfo, images: np.ndarray, labels: np.ndarray, positions: np.ndarray
) -> ImageArrays:
    """The splits are consecutive parts of `positions`."""
    parts = np.split(positions, np.cumsum([of.train, of.validation]))
    splits = dict(zip(("train", "validation", "test"), parts, strict=True))
    return ImageArrays(images.astype(np.uint8), labels.astype(np.int64), splits)


def load(folder: Path, *, split_seed: int) -> ImageArrays:
    rng = np.random.default_rng(split_seed)
    labels = np.arange(size(INFO)) % 10
    images = (
        rng.integers(0, 100, (len(labels), 32, 32, 3))
        + 15 * labels[:, None, None, None]
    )
    return arrays(INFO, images, labels, rng.permutation(len(labels)))


# With batches of 16 the last one holds 1 image, so that a second rank gets none.
INFO = info(load, train=49, validation=21, test=13)


TINY = {
    "dataset": "tiny",
    "model": "cnn",
    "width": 4,
    "batch_size": 16,
    "epochs": 3,
    "lr": 0.1,
}

# A model of two processes and of one are equal in this: no rounding, no norm over a batch
EXACT = {
    "model": "cnn",
    "width": 4,
    "norm": "group",
    "dtype": "float64",
    "dataset": "tiny",
    "batch_size": 16,
    "lr": 0.05,
}
