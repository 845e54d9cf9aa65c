import sys
from pathlib import Path
from subprocess import run

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tuner.classifier.catalog import DATASETS
from tuner.classifier.datasets import digits


@pytest.fixture(scope="module")
def arrays():
    return digits.load(Path("unused"), split_seed=0)


def test_pixels_and_labels_are_scikit_learns(arrays):
    expected = load_digits()
    assert np.array_equal(arrays.images_NHWC[..., 0], expected.images * digits.PIXEL_SCALE)
    assert np.array_equal(arrays.labels_N, expected.target)
    assert arrays.images_NHWC.dtype == np.uint8


def test_without_scikit_learns_file_its_function_is_used(arrays, monkeypatch):
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    assert np.array_equal(digits.load(Path("unused"), split_seed=0).images_NHWC, arrays.images_NHWC)


def test_loading_does_not_import_scikit_learn():
    code = (
        "import sys; from pathlib import Path; from tuner.classifier.datasets.digits import load;"
        "load(Path(), split_seed=0); print('sklearn' in sys.modules)"
    )
    out = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_the_catalog_describes_it(arrays):
    info = DATASETS["digits"]
    size = info.image_size
    assert arrays.images_NHWC.shape[1:] == (size, size, info.channels)
    assert {name: len(rows) for name, rows in arrays.splits.items()} == {
        "train": info.train,
        "validation": info.validation,
        "test": info.test,
    }
    assert len(np.unique(arrays.labels_N)) == info.num_classes
    assert arrays.images_NHWC.mean() / 255 == pytest.approx(info.mean[0], abs=1e-4)
    assert arrays.images_NHWC.std() / 255 == pytest.approx(info.std[0], abs=1e-4)


def test_split_seed_changes_the_split_and_nothing_else(arrays):
    other = digits.load(Path("unused"), split_seed=1)
    assert not np.array_equal(other.splits["test"], arrays.splits["test"])
    assert np.array_equal(other.images_NHWC, arrays.images_NHWC)
