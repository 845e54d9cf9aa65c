from pathlib import Path

import numpy as np
import pytest
from fresh import ran
from sklearn.datasets import load_digits

from tuner.testing.contracts import DatasetContract
from tuner.vision.catalog import DATASETS
from tuner.vision.datasets import digits


class TestDigits(DatasetContract):
    info = DATASETS["digits"]


@pytest.fixture(scope="module")
def arrays():
    return digits.load(Path("unused"), split_seed=0)


def test_load_gives_pixels_and_labels_of_scikit_learn(arrays):
    expected = load_digits()
    assert np.array_equal(
        arrays.images_NHWC[..., 0], expected.images * digits.PIXEL_SCALE
    )
    assert np.array_equal(arrays.labels_N, expected.target)
    assert arrays.images_NHWC.dtype == np.uint8


def test_digits_baseline_is_the_share_of_the_largest_class(arrays):
    labels_N = arrays.labels_N[arrays.splits["validation"]]
    assert np.bincount(labels_N).max() / len(labels_N) == DATASETS["digits"].baseline


def test_load_imports_no_scikit_learn():
    code = (
        "from pathlib import Path; from tuner.vision.datasets.digits import load\n"
        "load(Path(), split_seed=0)"
    )
    assert "sklearn" not in ran(code).modules
