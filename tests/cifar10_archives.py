"""Archives in CIFAR-10's layout, of random images."""

import hashlib
import io
import tarfile
from dataclasses import replace

import numpy as np

from tuner.vision.datasets import cifar10
from tuner.vision.datasets.cifar10 import EXTRACTED, OFFICIAL

IMAGES_A_FILE = 40
NAMES = (*cifar10.TRAIN_FILES, cifar10.TEST_FILE)


def records(number, count=IMAGES_A_FILE):
    """One file of the archive: label byte, then 1024 red, 1024 green and 1024 blue bytes."""
    rng = np.random.default_rng(number)
    images = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(count, dtype=np.uint8) % 10
    rows = (
        bytes([label]) + image.tobytes()
        for label, image in zip(labels, images, strict=True)
    )
    return images, labels, b"".join(rows)


def write_archive(path, *, files=None, extra=(), count=IMAGES_A_FILE):
    """An archive of `count` images a file; `files` replaces contents by name, `extra` adds members.

    Returns the source that it is, which is nowhere to be downloaded.
    """
    contents = {name: records(number, count)[2] for number, name in enumerate(NAMES)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**contents, **(files or {})}.items():
            member = tarfile.TarInfo(f"{EXTRACTED}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return replace(
        OFFICIAL,
        url="file:///nowhere/cifar",
        md5=hashlib.md5(path.read_bytes()).hexdigest(),
        images_a_file=count,
        validation=20,
    )
