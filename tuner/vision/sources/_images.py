"""The declaration of a source of images, its images before decoding, and their splits."""

# N images, K classes

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import Fault
from tuner.spec.settings import FaultsError
from tuner.vision.datasets._dataset import stratified_sample
from tuner.wording import install

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
    labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8], *, seed: int
) -> dict[str, NDArray[np.int64]]:
    """The positions of each split: disjoint, together all.

    splits_N: each image's position in SPLITS. An empty split gets its share of the training images,
    stratified; the training split keeps at least one image of each class.
    """
    import numpy as np

    splits = {name: np.flatnonzero(splits_N == number) for number, name in enumerate(SPLITS)}
    missing = [name for name in ("test", "validation") if not len(splits[name])]
    count, rng = share_of(len(splits["train"])), np.random.default_rng(seed)
    for name in missing:
        train_N = splits["train"]
        shuffled_N = rng.permutation(train_N)
        _, kept_K = np.unique(labels_N[shuffled_N], return_index=True)
        spare_N = np.sort(np.delete(shuffled_N, kept_K))
        assert len(spare_N) >= count, "check_sizes has let it pass"
        splits[name] = spare_N[stratified_sample(labels_N[spare_N], count, rng=rng)]
        splits["train"] = np.setdiff1d(train_N, splits[name])
    return splits


def share_of(train: int) -> int:
    """How many of `train` images a missing split gets."""
    return max(1, round(SHARE * train))


def sizes(counts: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The final number of images of each split, from the given images of each class."""
    totals = {name: sum(counts.get(name, ())) for name in SPLITS}
    missing = [name for name in SPLITS if not totals[name]]
    share = share_of(totals["train"])
    train = totals["train"] - share * len(missing)
    return {**totals, **dict.fromkeys(missing, share), "train": train}


def counts_of(
    labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8], classes: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """The number of images of each class in each of SPLITS."""
    import numpy as np

    return {
        split: tuple(np.bincount(labels_N[splits_N == number], minlength=len(classes)).tolist())
        for number, split in enumerate(SPLITS)
    }


def check_sizes(
    classes: tuple[str, ...], counts: Mapping[str, tuple[int, ...]], location: str
) -> None:
    """Raise FaultsError where no classifier can be trained, validated and tested on these."""
    if len(classes) < 2:
        rule = f"must have at least two classes, and has {', '.join(classes) or 'none'}"
        raise fault(rule, location)
    train = counts["train"]
    bare = [name for name, count in zip(classes, train, strict=True) if not count]
    if bare:
        raise fault(
            f"must have training images of every class; without: {', '.join(bare)}", location
        )
    missing = [name for name in SPLITS if not sum(counts.get(name, ()))]
    least = len(classes) + len(missing) * share_of(sum(train))
    if sum(train) < least:
        what = f"{len(classes)} classes"
        if missing:
            what += f" and the {' and '.join(missing)} split that are taken from them"
        raise fault(
            f"must have at least {least} training images for {what}, has {sum(train)}", location
        )


@dataclass(frozen=True, slots=True)
class Outline:
    """A description of images without decoding them.

    counts: of each given split, the images of each class, in the classes' order. image_size: px, at
    most LARGEST_SIZE. doubts: warnings about the files.
    """

    classes: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]
    channels: int
    image_size: int
    title: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Images:
    """Images to be decoded, by their positions.

    labels_N: from 0, in the order of `classes`. splits_N: each image's position in SPLITS; an empty
    split is taken from "train". read: the image at a position, a Pillow image or an array of uint8
    (H, W) or (H, W, C); called from several threads if `in_threads`. name_of: its name in messages.
    channels: 1, or 3 if some are in colour. own_size: the usual shorter side in px. fingerprint:
    changes with the images; None if only decoding can tell. root: what the names of files have in
    front.
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


@dataclass(frozen=True, slots=True)
class Source:
    """A scheme: how the images of a location are described and found.

    form: how it is written. Both functions are called with the location, the text after the colon,
    and raise FaultsError for a location that cannot work. outline: a description without torch and
    without decoding, or None. find: also called with the data folder. lists: whether
    `find` only lists files.
    """

    form: str
    outline: Callable[[str], Outline | None]
    find: Callable[[str, Path], Images]
    lists: bool = False


def split_of(name: str) -> str | None:
    """The split that a folder or a key of this name means, or None."""
    return _SPELLINGS.get(name.lower())


def spread_over(count: int) -> range:
    """The positions of a sample of `count` images, spread over all."""
    return range(0, count, max(1, count // _SAMPLE))


def fault(rule: str, value: object = None, choices: tuple[str, ...] = ()) -> FaultsError:
    """The error for a location that cannot work; the caller adds the key."""
    return FaultsError(Fault("", rule, value, choices))


def require(package: str, extra: str, value: str) -> None:
    """Raise FaultsError with what to install if `package` is missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:  # a folder of that name is no package
        raise fault(f"needs a package: {install(extra)}", value)
