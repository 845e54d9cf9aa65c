"""The declaration of a source of images, its images before decoding, and their splits."""

# N images, K classes, H W pixels, C channels

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import DataError
from tuner.spec.settings import bad_value
from tuner.vision.datasets._dataset import sample_groups
from tuner.wording import suggest_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SPLITS = ("train", "validation", "test")
SHARE = 0.15  # of the training images, for each split that is missing
LARGEST_SIZE = 64  # px of images whose size is not set

_SAMPLE = 32  # images that are read to describe all
_SPELLINGS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def complete_splits(
    labels_N: NDArray[np.int64],
    splits_N: NDArray[np.uint8],
    *,
    seed: int,
    groups_N: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """The positions of each split: disjoint, together all.

    splits_N: each image's position in SPLITS. An empty split gets its share of the training images,
    stratified; the training split keeps at least one image of each class. groups_N: the same for
    images that are copies of each other, of which a split gets all or none; None without copies.
    Raises DataError where too few images differ.
    """
    import numpy as np

    splits = {
        name: np.flatnonzero(splits_N == number) for number, name in enumerate(SPLITS)
    }
    missing = [name for name in ("test", "validation") if not len(splits[name])]
    count = count_held_out(len(splits["train"]))
    rng = np.random.default_rng(seed)
    groups_N = np.arange(len(labels_N)) if groups_N is None else groups_N
    for name in missing:
        train_N = splits["train"]
        shuffled_N = rng.permutation(train_N)
        _, kept_K = np.unique(labels_N[shuffled_N], return_index=True)
        kept_N = groups_N[shuffled_N[kept_K]]
        spare_N = train_N[~np.isin(groups_N[train_N], kept_N)]
        if not len(spare_N):
            raise DataError(
                f"no image is left for the {name} split: the others are copies"
            )
        sampled = sample_groups(labels_N[spare_N], groups_N[spare_N], count, rng=rng)
        splits[name] = spare_N[sampled]
        splits["train"] = np.setdiff1d(train_N, splits[name])
    return splits


def count_held_out(train: int) -> int:
    """How many of `train` images a missing split gets."""
    return max(1, round(SHARE * train))


def compute_split_sizes(counts: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The final number of images of each split, from the given images of each class."""
    totals = {name: sum(counts.get(name, ())) for name in SPLITS}
    missing = [name for name in SPLITS if not totals[name]]
    share = count_held_out(totals["train"])
    train = totals["train"] - share * len(missing)
    return {**totals, **dict.fromkeys(missing, share), "train": train}


def count_images(
    labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8], classes: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """The number of images of each class in each of SPLITS."""
    import numpy as np

    return {
        split: tuple(
            np.bincount(labels_N[splits_N == number], minlength=len(classes)).tolist()
        )
        for number, split in enumerate(SPLITS)
    }


def check_sizes(
    classes: tuple[str, ...], counts: Mapping[str, tuple[int, ...]], location: str
) -> None:
    """Raise FaultsError where no classifier can be trained, validated and tested on these."""
    if len(classes) < 2:
        rule = f"must have at least two classes, and has {', '.join(classes) or 'none'}"
        raise bad_value(rule, location)
    train = counts["train"]
    bare = [name for name, count in zip(classes, train, strict=True) if not count]
    if bare:
        raise bad_value(
            f"must have training images of every class; without: {', '.join(bare)}",
            location,
        )
    missing = [name for name in SPLITS if not sum(counts.get(name, ()))]
    least = len(classes) + len(missing) * count_held_out(sum(train))
    if sum(train) < least:
        what = f"{len(classes)} classes"
        if missing:
            what += f" and the {' and '.join(missing)} split that are taken from them"
        raise bad_value(
            f"must have at least {least} training images for {what}, has {sum(train)}",
            location,
        )


@dataclass(frozen=True, eq=False)
class Images:
    """Images to be decoded, by their positions.

    labels_N: from 0, in the order of `classes`. splits_N: each image's position in SPLITS; an empty
    split is taken from "train". read: the image at a position, a Pillow image or an array of uint8
    (H, W) or (H, W, C); called from several threads if `in_threads`. name_of: its name in messages.
    channels: 1, or 3 if some are in colour. own_size: the usual shorter side in px. fingerprint:
    changes with the images; None if only decoding can tell. root: what the names of files have in
    front. doubts: warnings about the files.
    """

    title: str
    classes: tuple[str, ...]
    labels_N: NDArray[np.int64]
    splits_N: NDArray[np.uint8]
    read: Callable[[int], Any]
    name_of: Callable[[int], str]
    channels: int
    own_size: int
    fingerprint: str | None = None
    in_threads: bool = False
    root: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The px to which they are resized unless a size is set."""
        return min(self.own_size, LARGEST_SIZE)


@dataclass(frozen=True, slots=True)
class Source:
    """A scheme: how to list the images of a location.

    form: how it is written. find: called with the location, the text after the colon, and the data
    folder. require: called with the location; None if `find` only lists files, with no library.
    Both raise FaultsError for a location that cannot work.
    """

    form: str
    find: Callable[[str, Path], Images]
    require: Callable[[str], None] | None = None


def parse_split(name: str) -> str | None:
    """The split that a folder or a key of this name means, or None."""
    return _SPELLINGS.get(name.lower())


def sample_positions(count: int) -> range:
    """The positions of a sample of `count` images, spread over all."""
    return range(0, count, max(1, count // _SAMPLE))


def check_package(package: str, extra: str, value: str) -> None:
    """Raise FaultsError with what to install if `package` is missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:  # a folder of that name is no package
        raise bad_value(f"needs a package: {suggest_install(extra)}", value)
