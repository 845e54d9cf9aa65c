"""Data sets of CIFAR-10's shape with a few images; here class k is a little brighter than k - 1."""

import numpy as np

from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays


def load(folder, *, split_seed):
    rng = np.random.default_rng(split_seed)
    count = INFO.train + INFO.validation + INFO.test
    labels = np.arange(count) % 10
    noise = rng.integers(0, 100, (count, 32, 32, 3))
    images = noise + 15 * labels[:, None, None, None]
    first = INFO.train, INFO.train + INFO.validation
    rows = np.split(rng.permutation(count), first)
    splits = dict(zip(("train", "validation", "test"), rows, strict=True))
    return ImageArrays(images.astype(np.uint8), labels, splits)


# With batches of 16 the last one holds 1 image, so that a second rank gets none.
INFO = DatasetInfo(
    load,
    channels=3,
    image_size=32,
    classes=tuple("0123456789"),
    train=49,
    validation=21,
    test=13,
    mean=(0.5, 0.5, 0.5),
    std=(0.25, 0.25, 0.25),
    files=False,
    title="tiny images",
    origin="a random number generator",
    licence="none needed",
)


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
