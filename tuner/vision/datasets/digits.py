"""scikit-learn's digits: 1,797 real handwritten digits of 8x8 px, with no download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.vision.datasets._dataset import (
    DatasetInfo,
    ImageArrays,
    split_train_validation_test,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The pixels are 0 to 16; as a multiple of 15 they fill uint8 and lose nothing
PIXEL_SCALE = 15
VALIDATION = TEST = 360


def load(folder: Path, *, split_seed: int) -> ImageArrays:
    """Images 1797x8x8x1, split 1077 / 360 / 360. `folder` is not used: the data is installed."""
    import numpy as np

    table = _read_table()
    images_NHWC = (table[:, :-1] * PIXEL_SCALE).astype(np.uint8).reshape(-1, 8, 8, 1)
    labels_N = table[:, -1].astype(np.int64)
    splits = split_train_validation_test(
        labels_N, validation=VALIDATION, test=TEST, seed=split_seed
    )
    return ImageArrays(images_NHWC, labels_N, splits)


def _read_table() -> NDArray[np.float64]:
    """64 pixels and the label of each image.

    Read from scikit-learn's own file where it lies as expected: importing scikit-learn costs a
    worker about 1.3 CPU seconds, the file 0.02.
    """
    import gzip

    import numpy as np

    package = find_spec("sklearn")
    for folder in (package.submodule_search_locations if package else None) or ():
        file = Path(folder, "datasets", "data", "digits.csv.gz")
        if file.is_file():
            with gzip.open(file) as lines:
                return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target])


DATASET = DatasetInfo(
    load,
    channels=1,
    image_size=8,
    classes=tuple("0123456789"),
    train=1077,
    validation=VALIDATION,
    test=TEST,
    mean=(0.2873,),
    std=(0.3539,),
    files=False,
    title="scikit-learn's handwritten digits, 8x8 px; their pixels, 0 to 16, are divided by 17",
    origin="the test part of Alpaydin and Kaynak's Optical Recognition of Handwritten Digits "
    "(1998), UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/80",
    licence="CC BY 4.0",
    baseline=37 / VALIDATION,
    own_splits=(),
)
