"""The contract of data sets catches one that is not as it declares.

Those that ship inherit it in tests/vision/datasets.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.testing import DatasetContract
from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays
from tuner.vision.datasets.digits import DATASET, load


def overlapping(folder: Path, *, split_seed: int) -> ImageArrays:
    arrays = load(folder, split_seed=split_seed)
    return replace(arrays, splits={**arrays.splits, "validation": arrays.splits["test"]})


def unseeded(folder: Path, *, split_seed: int) -> ImageArrays:
    return load(folder, split_seed=0)


@pytest.mark.parametrize(
    ("info", "check"),
    [
        (replace(DATASET, image_size=9), "test_images_and_labels_are_of_the_declared_shape"),
        (replace(DATASET, load=overlapping), "test_splits_are_disjoint_and_of_the_declared_sizes"),
        (replace(DATASET, std=(0.5,)), "test_the_statistics_are_those_of_the_pixels"),
    ],
)
def test_contract_catches_wrong_declarations(info: DatasetInfo, check: str, tmp_path: Path) -> None:
    contract = contract_of(info)
    with pytest.raises(AssertionError):
        getattr(contract, check)(contract.load(tmp_path, split_seed=0))


def test_contract_catches_a_split_without_its_seed(tmp_path: Path) -> None:
    contract = contract_of(replace(DATASET, load=unseeded))
    with pytest.raises(AssertionError):
        contract.test_the_seed_decides_the_split_and_nothing_else(
            contract.load(tmp_path, split_seed=0), tmp_path
        )


def contract_of(info: DatasetInfo) -> Any:
    contract = DatasetContract()
    contract.info = info
    return contract
