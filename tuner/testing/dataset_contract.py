"""The contract of data sets: a test inherits it and names its data set.

class TestDigits(DatasetContract):
    info = DATASET
"""

# N images, H W pixels, C channels

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays

SPLITS = ("train", "validation", "test")


class DatasetContract:
    """Inherit, set `info`, and every test below runs on your data set."""

    info: DatasetInfo

    @pytest.fixture
    def arrays(self, tmp_path: Path) -> ImageArrays:
        """The data set of split seed 0."""
        return self.load(tmp_path, split_seed=0)

    def load(self, folder: Path, *, split_seed: int) -> ImageArrays:
        """The data set; override it for one whose files must first be put into `folder`."""
        return self.info.load(folder, split_seed=split_seed)

    def test_images_and_labels_are_of_the_declared_shape(self, arrays: ImageArrays) -> None:
        size = self.info.image_size
        assert arrays.images_NHWC.dtype == np.uint8
        assert arrays.images_NHWC.shape[1:] == (size, size, self.info.channels)
        assert arrays.labels_N.dtype == np.int64
        assert arrays.labels_N.shape == arrays.images_NHWC.shape[:1]
        assert np.unique(arrays.labels_N).tolist() == list(range(self.info.num_classes))

    def test_splits_are_disjoint_and_of_the_declared_sizes(self, arrays: ImageArrays) -> None:
        assert set(arrays.splits) == set(SPLITS)
        sizes = [len(arrays.splits[name]) for name in SPLITS]
        assert sizes == [self.info.train, self.info.validation, self.info.test]
        every_N = np.concatenate([arrays.splits[name] for name in SPLITS])
        assert len(np.unique(every_N)) == len(every_N)
        assert every_N.min() >= 0
        assert every_N.max() < len(arrays.labels_N)

    def test_the_statistics_are_those_of_the_pixels(self, arrays: ImageArrays) -> None:
        pixels_NHWC = arrays.images_NHWC / 255
        mean_C, std_C = pixels_NHWC.mean((0, 1, 2)), pixels_NHWC.std((0, 1, 2))
        assert mean_C.tolist() == pytest.approx(self.info.mean, abs=5e-3)
        assert std_C.tolist() == pytest.approx(self.info.std, abs=5e-3)

    def test_the_seed_decides_the_split_and_nothing_else(
        self, arrays: ImageArrays, tmp_path: Path
    ) -> None:
        again, other = (self.load(tmp_path, split_seed=seed) for seed in (0, 1))
        for name in SPLITS:
            assert np.array_equal(again.splits[name], arrays.splits[name])
        assert not np.array_equal(other.splits["validation"], arrays.splits["validation"])
        assert np.array_equal(other.images_NHWC, arrays.images_NHWC)
        assert np.array_equal(other.labels_N, arrays.labels_N)
