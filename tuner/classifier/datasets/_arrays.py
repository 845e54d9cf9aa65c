"""What a data set's module loads: arrays, with one fixed split that is the same for every trial."""

# N images, H W pixels, C channels, K classes

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ImageArrays:
    """Arrays on the host, and the positions of the splits "train", "validation" and "test"."""

    images_NHWC: npt.NDArray[np.uint8]
    labels_N: IntArray
    splits: dict[str, IntArray]


def split_train_validation_test(
    labels_N: npt.NDArray[Any], *, validation: int, test: int, seed: int
) -> dict[str, IntArray]:
    """Positions in `labels_N` of the three splits: disjoint, together all, each stratified."""
    rng = np.random.default_rng(seed)
    everything = np.arange(len(labels_N))
    test_N = stratified_sample(labels_N, test, rng=rng)
    rest_N = np.setdiff1d(everything, test_N)
    validation_N = rest_N[stratified_sample(labels_N[rest_N], validation, rng=rng)]
    train_N = np.setdiff1d(rest_N, validation_N)
    return {"train": train_N, "validation": validation_N, "test": test_N}


def stratified_sample(
    labels_N: npt.NDArray[Any], count: int, *, rng: np.random.Generator
) -> IntArray:
    """`count` positions in `labels_N`, ascending, every class in its share to within one image."""
    classes, sizes_K = np.unique(labels_N, return_counts=True)
    quotas_K = _largest_remainder(sizes_K, count)
    chosen = [
        rng.permutation(np.flatnonzero(labels_N == label))[:quota]
        for label, quota in zip(classes, quotas_K, strict=True)
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64) if chosen else np.empty(0, np.int64)


def _largest_remainder(sizes_K: npt.NDArray[Any], count: int) -> IntArray:
    """`count` shared out in proportion to `sizes_K`; the largest fractions are rounded up."""
    total = int(sizes_K.sum())
    assert 0 <= count <= total, (count, total)
    shares_K = sizes_K.astype(np.int64) * count
    quotas_K = shares_K // max(total, 1)
    left = count - int(quotas_K.sum())
    quotas_K[np.argsort(-(shares_K % max(total, 1)), kind="stable")[:left]] += 1
    return quotas_K
