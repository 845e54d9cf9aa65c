"""CIFAR-10 (Krizhevsky 2009) from its official binary archive, which holds no pickles.

    DATA_DIR/cifar-10-binary.tar.gz      the archive, downloaded if missing, and verified
    DATA_DIR/cifar-10-batches-bin/       or its extracted folder
    DATA_DIR/cifar10-uint8/              decoded once: images.npy and labels.npy, memory-mapped

The archive is read in place, never extracted, so that its members cannot write anywhere.
"""

# N images, C channels, H W pixels

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import DataError, translate_error
from tuner.vision.datasets._archive import Archive
from tuner.vision.datasets._dataset import (
    DatasetInfo,
    ImageArrays,
    resolve_data_folder,
    sample_stratified,
)
from tuner.vision.shared_folders import ensure_folder

ARCHIVE = "cifar-10-binary.tar.gz"
EXTRACTED = "cifar-10-batches-bin"
DECODED = "cifar10-uint8"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = "test_batch.bin"
FILES = (*TRAIN_FILES, TEST_FILE)
SHAPE_CHW = (3, 32, 32)
# One record is a label byte and the red, green and blue planes, row by row
RECORD_BYTES = 1 + 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class Source(Archive):
    """The archive, its origin, and the number of images in it."""

    images_a_file: int
    validation: int


OFFICIAL = Source(
    title="CIFAR-10",
    name=ARCHIVE,
    extracted=EXTRACTED,
    decoded=DECODED,
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    images_a_file=10_000,
    validation=5_000,
)


def load(folder: Path, *, split_seed: int, source: Source = OFFICIAL) -> ImageArrays:
    """60,000 images: validation is stratified from the first 50,000, test is the official one.

    The images are a read-only map of one file, shared by all processes of the node. Raises
    DataError, with the URL and the folder, if the data is not available.
    """
    import numpy as np

    what = f"CIFAR-10 cannot be read or stored in {folder}"
    with translate_error(DataError, what, of=(OSError, ValueError)):
        decoded = _ensure_decoded(folder, source)
        images_NHWC = np.load(decoded / "images.npy", mmap_mode="r", allow_pickle=False)
        labels_N = np.load(decoded / "labels.npy", allow_pickle=False).astype(np.int64)
    official_train = len(TRAIN_FILES) * source.images_a_file
    validation_N = sample_stratified(
        labels_N[:official_train],
        source.validation,
        rng=np.random.default_rng(split_seed),
    )
    splits = {
        "train": np.setdiff1d(np.arange(official_train), validation_N),
        "validation": validation_N,
        "test": np.arange(official_train, len(labels_N)),
    }
    return ImageArrays(images_NHWC, labels_N, splits)


def _ensure_decoded(folder: Path, source: Source) -> Path:
    """The folder with the decoded set, which is made first if it is missing."""
    decoded = folder / DECODED
    if decoded.is_dir():
        return decoded
    if folder.exists() and not os.access(folder, os.W_OK):
        # A separate folder in the cache
        key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        decoded = resolve_data_folder(None) / f"cifar10-{key}" / DECODED
    ensure_folder(decoded, lambda partial: _decode(folder, partial, source))
    return decoded


def _decode(folder: Path, partial: Path, source: Source) -> None:
    """Write images.npy and labels.npy to `partial`."""
    import numpy as np

    count = source.images_a_file
    (channels, height, width) = SHAPE_CHW
    shape_NHWC = len(FILES) * count, height, width, channels
    images_NHWC = np.lib.format.open_memmap(
        partial / "images.npy", mode="w+", dtype=np.uint8, shape=shape_NHWC
    )
    labels_N = np.empty(len(images_NHWC), np.uint8)
    for number, (name, data) in enumerate(_read_files(folder, source)):
        if len(data) != count * RECORD_BYTES:
            raise DataError(
                f"{name} has {len(data)} bytes, must have {count * RECORD_BYTES} "
                f"({count} records of {RECORD_BYTES})"
            )
        records = np.frombuffer(data, np.uint8).reshape(count, RECORD_BYTES)
        if records[:, 0].max() > 9:
            raise DataError(
                f"{name} has a label above 9: it is not CIFAR-10's binary version"
            )
        rows = slice(number * count, (number + 1) * count)
        labels_N[rows] = records[:, 0]
        images_NHWC[rows] = records[:, 1:].reshape(-1, *SHAPE_CHW).transpose(0, 2, 3, 1)
    images_NHWC.flush()
    np.save(partial / "labels.npy", labels_N)


def _read_files(folder: Path, source: Source) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each of FILES, from the extracted folder or from the archive."""
    extracted = folder / EXTRACTED
    if extracted.is_dir():
        yield from ((name, (extracted / name).read_bytes()) for name in FILES)
        return
    import tarfile

    archive = source.ensure_verified(folder)
    with tarfile.open(archive, "r:gz") as tar:
        for name in FILES:
            member = f"{EXTRACTED}/{name}"
            try:
                is_file = tar.getmember(member).isreg()
            except KeyError as error:
                raise DataError(f"{archive} holds no {member}") from error
            file = tar.extractfile(member) if is_file else None
            if file is None:
                raise DataError(f"{archive}: {member} is not a regular file")
            yield name, file.read()


DATASET = DatasetInfo(
    load,
    channels=3,
    image_size=32,
    classes=(
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    train=45_000,
    validation=5_000,
    test=10_000,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    files=True,
    title="CIFAR-10, colour photographs of 32x32 px",
    origin="Krizhevsky, Learning Multiple Layers of Features from Tiny Images (2009), "
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none stated; its author asks to cite the report above",
    archive=OFFICIAL,
    baseline=0.1,
    own_splits=("test",),
)
