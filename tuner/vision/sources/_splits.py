"""The splits of images of a user's own: those that are given, and those that are split off."""

# N images, K classes

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.vision.datasets._dataset import stratified_sample
from tuner.vision.sources._images import SPLITS, fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHARE = 0.15  # of the training images, for each split that is missing


def complete_splits(
    labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8], *, seed: int
) -> dict[str, NDArray[np.int64]]:
    """The positions of each split: disjoint, together all.

    splits_N: of each image its position in SPLITS. A split without an image gets its share of the
    training images, stratified; each class keeps at least one of those.
    """
    import numpy as np

    splits = {name: np.flatnonzero(splits_N == number) for number, name in enumerate(SPLITS)}
    missing = [name for name in ("test", "validation") if not len(splits[name])]
    count, rng = share_of(len(splits["train"])), np.random.default_rng(seed)
    for name in missing:
        train_N = splits["train"]
        spare_N = _spare(train_N, labels_N, rng=rng)
        assert len(spare_N) >= count, "check_sizes has let it pass"
        splits[name] = spare_N[stratified_sample(labels_N[spare_N], count, rng=rng)]
        splits["train"] = np.setdiff1d(train_N, splits[name])
    return splits


def _spare(
    rows_N: NDArray[np.int64], labels_N: NDArray[np.int64], *, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The positions `rows_N` without one of each class."""
    import numpy as np

    shuffled_N = rng.permutation(rows_N)
    _, kept_K = np.unique(labels_N[shuffled_N], return_index=True)
    return np.sort(np.delete(shuffled_N, kept_K))


def share_of(train: int) -> int:
    """How many of `train` images a split gets that is missing."""
    return max(1, round(SHARE * train))


def sizes(counts: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """How many images each split has in the end, from what is given of each class."""
    given = {name: sum(counts.get(name, ())) for name in SPLITS}
    missing = [name for name in SPLITS if not given[name]]
    share = share_of(given["train"])
    return {
        **given,
        **dict.fromkeys(missing, share),
        "train": given["train"] - share * len(missing),
    }


def counts_of(
    labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8], classes: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """How many images of each class there are in each of SPLITS."""
    import numpy as np

    return {
        split: tuple(np.bincount(labels_N[splits_N == number], minlength=len(classes)).tolist())
        for number, split in enumerate(SPLITS)
    }


def check_sizes(
    classes: tuple[str, ...], counts: Mapping[str, tuple[int, ...]], place: str
) -> None:
    """Raise FaultsError where no classifier can be trained, validated and tested on these."""
    if len(classes) < 2:
        rule = f"must have at least two classes, and has {', '.join(classes) or 'none'}"
        raise fault(rule, place)
    train = counts["train"]
    bare = [name for name, count in zip(classes, train, strict=True) if not count]
    if bare:
        raise fault(f"must have training images of every class; without: {', '.join(bare)}", place)
    missing = [name for name in SPLITS if not sum(counts.get(name, ()))]
    least = len(classes) + len(missing) * share_of(sum(train))
    if sum(train) < least:
        what = f"{len(classes)} classes"
        if missing:
            what += f" and the {' and '.join(missing)} split that are taken from them"
        raise fault(
            f"must have at least {least} training images for {what}, has {sum(train)}", place
        )
