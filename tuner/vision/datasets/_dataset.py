"""The declaration of a data set, its splits, and its description in a checkpoint.

An export needs that description, since the images may be missing.
"""

# N images, H W pixels, C channels, K classes

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import CheckpointError, DataError, translate_error
from tuner.vision.datasets._archive import Archive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ImageArrays:
    """Arrays on the host, and the positions of the splits "train", "validation" and "test".

    groups_N: the same for images that are copies of each other; None for images without copies.
    """

    images_NHWC: NDArray[np.uint8]
    labels_N: NDArray[np.int64]
    splits: dict[str, NDArray[np.int64]]
    groups_N: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """How a data set is loaded, its shape, its splits, its pixel statistics.

    load: called with the data folder and `split_seed`; raises DataError if the data is not
    available. train, validation, test: numbers of images. mean, std: one value a channel, of pixels
    scaled to [0, 1]. files: whether it is read from `data_dir`. archive: its download, or None.
    classes: the labels' names in their order. title, origin, licence: for receivers of a model.

    Of a user's images: mean and std are empty until they are decoded. class_counts: images of each
    class, of all splits. copies: images of validation and test that are exact copies of images in
    an earlier split, as these came. relabelled: pairs of files that are copies with different
    labels. unmeasured: the classes without an image in validation or test. content: a
    digest of the decoded images. bits: the bits of a channel that deep images use; None for 8-bit
    images. skipped: the images that cannot be read, with the reasons.

    baseline: the share of the largest class in the validation split. own_splits: which of
    validation and test came with the images; the others are stratified. Both are None if unknown.
    """

    load: Callable[..., ImageArrays]
    channels: int
    image_size: int
    classes: tuple[str, ...]
    train: int
    validation: int
    test: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    files: bool
    title: str
    origin: str
    licence: str
    archive: Archive | None = None
    class_counts: tuple[int, ...] = ()
    copies: int = 0
    relabelled: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    content: str = ""
    bits: int | None = None
    skipped: tuple[str, ...] = ()
    baseline: float | None = None
    own_splits: tuple[str, ...] | None = None

    @property
    def num_classes(self) -> int:
        return len(self.classes)


def resolve_data_folder(data_dir: str | None) -> Path:
    """The folder of all data sets: `data_dir`, else $TUNER_DATA, else ~/.cache/tuner."""
    return Path(
        data_dir or os.environ.get("TUNER_DATA") or "~/.cache/tuner"
    ).expanduser()


def split_train_validation_test(
    labels_N: NDArray[Any], *, validation: int, test: int, seed: int
) -> dict[str, NDArray[np.int64]]:
    """Positions in `labels_N` of the three splits: disjoint, together all, each stratified."""
    import numpy as np

    rng = np.random.default_rng(seed)
    test_N = sample_stratified(labels_N, test, rng=rng)
    rest_N = np.setdiff1d(np.arange(len(labels_N)), test_N)
    validation_N = rest_N[sample_stratified(labels_N[rest_N], validation, rng=rng)]
    train_N = np.setdiff1d(rest_N, validation_N)
    return {"train": train_N, "validation": validation_N, "test": test_N}


def sample_stratified(
    labels_N: NDArray[Any], count: int, *, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`count` positions in `labels_N`, ascending, every class in its share to within one image."""
    import numpy as np

    total = len(labels_N)
    assert 0 <= count <= total, (count, total)
    classes, sizes_K = np.unique(labels_N, return_counts=True)
    # The largest remainders are rounded up, so that the quotas add up to the count
    shares_K = sizes_K.astype(np.int64) * count
    quotas_K = shares_K // max(total, 1)
    left = count - int(quotas_K.sum())
    quotas_K[np.argsort(-(shares_K % max(total, 1)), kind="stable")[:left]] += 1
    chosen = [
        rng.permutation(np.flatnonzero(labels_N == label))[:quota]
        for label, quota in zip(classes, quotas_K, strict=True)
    ]
    return (
        np.sort(np.concatenate(chosen)).astype(np.int64)
        if chosen
        else np.empty(0, np.int64)
    )


def assign_folds(
    labels_N: NDArray[Any], count: int, *, seed: int | Sequence[int]
) -> NDArray[np.int64]:
    """The fold, from 0, of each position: equal in size to within one image, also by class."""
    import numpy as np

    shuffled_N = np.random.default_rng(seed).permutation(len(labels_N))
    fold_N = np.empty(len(labels_N), np.int64)
    fold_N[np.lexsort((shuffled_N, labels_N))] = np.arange(len(labels_N)) % count
    return fold_N


def sample_groups(
    labels_N: NDArray[Any],
    groups_N: NDArray[Any],
    count: int,
    *,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """About `count` positions, as `sample_stratified` chooses them; a group is chosen as one.

    groups_N: the same for images that are copies of each other. Without copies there are `count`.
    """
    import numpy as np

    _, first_G, group_N = np.unique(groups_N, return_index=True, return_inverse=True)
    share = round(count * len(first_G) / max(len(labels_N), 1))
    chosen_G = sample_stratified(
        labels_N[first_G], min(max(share, 1), len(first_G)), rng=rng
    )
    return np.flatnonzero(np.isin(group_N, chosen_G))


def assign_group_folds(
    labels_N: NDArray[Any],
    groups_N: NDArray[Any],
    count: int,
    *,
    seed: int | Sequence[int],
) -> NDArray[np.int64]:
    """The fold of each position, as `assign_folds` has it; a group is in one fold."""
    import numpy as np

    _, first_G, group_N = np.unique(groups_N, return_index=True, return_inverse=True)
    return assign_folds(labels_N[first_G], count, seed=seed)[group_N]


DATA = "data"  # the key in a Learner's state

# private to this machine, or never of a user's images
_LEFT_OUT = ("load", "archive", "files", "skipped", "relabelled")


def encode_info(info: DatasetInfo) -> dict[str, Any]:
    values = {
        f.name: getattr(info, f.name) for f in fields(info) if f.name not in _LEFT_OUT
    }
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def read_info(state: Mapping[str, Any]) -> DatasetInfo | None:
    """The description in a checkpoint, or None. Raises CheckpointError if it is damaged."""

    def load(folder: Path, *, split_seed: int) -> ImageArrays:
        raise DataError(
            "a checkpoint describes its training images, and does not hold them"
        )

    data = state.get(DATA)
    if data is None:
        return None
    what = "a checkpoint's description of its data is damaged"
    with translate_error(CheckpointError, what, of=(AttributeError, TypeError)):
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.items()
        }
        return DatasetInfo(load, files=True, **values)


def check_same(content: str | None, info: DatasetInfo) -> None:
    """Raise DataError if the images have another digest: the test split may be another."""
    if info.content and content != info.content:
        raise DataError(
            f"{info.title}: these are not the images that the checkpoint was trained on, so its "
            "splits are others"
        )
