"""The declaration of a source of images, its images before decoding, and their splits.

Pillow makes an image square pixels: turned upright, cropped and resized.
"""

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
    from PIL import Image

SPLITS = ("train", "validation", "test")
SHARE = 0.15  # of the training images, for each split that is missing
LARGEST_SIZE = 64  # px of images whose size is not set

_SAMPLE = 32  # images that are read to describe all
_SPELLINGS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_MODES = {1: "L", 3: "RGB"}
_GRAY = ("1", "L", "I;16", "I;16L", "I;16B", "I;16N")
DEEPEST = 16  # bits of a channel
_OUTLIERS = 0.01  # of an image's pixels may be beyond its bits: a sensor has dead pixels
_GRAYISH = 32  # of 255 by which the channels of a grey image may differ once it was compressed
_REDUCING_GAP = 2.0  # what is reduced fast leaves twice the pixels to what is resized well


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

    splits = {name: np.flatnonzero(splits_N == number) for number, name in enumerate(SPLITS)}
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
            raise DataError(f"no image is left for the {name} split: the others are copies")
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
        split: tuple(np.bincount(labels_N[splits_N == number], minlength=len(classes)).tolist())
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
            f"must have training images of every class; without: {', '.join(bare)}", location
        )
    missing = [name for name in SPLITS if not sum(counts.get(name, ()))]
    least = len(classes) + len(missing) * count_held_out(sum(train))
    if sum(train) < least:
        what = f"{len(classes)} classes"
        if missing:
            what += f" and the {' and '.join(missing)} split that are taken from them"
        raise bad_value(
            f"must have at least {least} training images for {what}, has {sum(train)}", location
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


def count_channels(image: Any) -> int:
    """1 or 3, of a Pillow image or an array. Raises ValueError."""
    if _is_pillow(image):
        return 1 if image.mode in _GRAY else 3
    return int(_convert_array(image).shape[2])


def measure_shorter_side(image: Any) -> int:
    """In px, of a Pillow image or an array. Raises ValueError."""
    return int(min(image.size if _is_pillow(image) else _convert_array(image).shape[:2]))


def count_bits(image: Any) -> int | None:
    """The bits, 8 to 16, of a deep grey image's brightest pixel, or None. Raises ValueError."""
    import numpy as np

    if not _is_pillow(image) or image.mode[0] not in "IF":
        return None
    pixels = np.asarray(image)
    if image.mode == "F" or pixels.min() < 0 or pixels.max() >= 1 << DEEPEST:
        raise ValueError(f"it has pixels of 32 bits (mode {image.mode}), must have 8 or 16")
    return max(8, int(pixels.max()).bit_length())


def crop_square(
    image: Any, *, size: int, channels: int, bits: int | None = None
) -> NDArray[np.uint8]:
    """(size, size, channels) of the centre of a Pillow image or an array of uint8.

    The largest square in the middle, resized, on white. A JPEG is decoded at a fraction of its size
    if that is enough. bits: the bits that deep grey images use, of which the upper 8 are taken;
    default 16. Raises ValueError, also for colours if there is one channel, and what Pillow raises.
    """
    import numpy as np
    from PIL import Image, ImageOps

    if not _is_pillow(image):
        pixels = _convert_array(image)
        if pixels.shape == (size, size, channels):
            return pixels
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    if image.format == "JPEG":
        image.draft(None, (round(_REDUCING_GAP * size),) * 2)
    is_deep = count_bits(image) is not None
    ImageOps.exif_transpose(image, in_place=True)
    image = _remove_transparency(_keep_upper_bits(image, bits or DEEPEST) if is_deep else image)
    if channels < count_channels(image) and np.ptp(image.convert("RGB"), axis=2).max() > _GRAYISH:
        raise ValueError("it is in colour, and others are grey: convert all to one of these")
    image = image.convert(_MODES[channels])
    if image.size != (size, size):
        width, height = image.size
        side = min(width, height)
        left = (width - side) // 2
        top = (height - side) // 2
        box = (left, top, left + side, top + side)
        bilinear = Image.Resampling.BILINEAR
        image = image.resize((size, size), bilinear, box=box, reducing_gap=_REDUCING_GAP)
    return np.asarray(image).reshape(size, size, channels)


def _is_pillow(image: Any) -> bool:
    """torch's tensors have a `mode` as well, but no string."""
    return isinstance(getattr(image, "mode", None), str)


def _keep_upper_bits(image: Image.Image, bits: int) -> Image.Image:
    """The upper 8 of `bits`. Pillow would clip: most of the image would be white."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(image)
    if np.mean(pixels >= 1 << bits) > _OUTLIERS:
        raise ValueError(
            f"its pixels go up to {pixels.max()}, beyond the {bits} bits of the images"
        )
    return Image.fromarray(np.minimum(pixels >> (bits - 8), 255).astype(np.uint8))


def _remove_transparency(image: Image.Image) -> Image.Image:
    """The image on white, as viewers show it; Pillow shows the colour under the transparency."""
    from PIL import Image

    if not image.has_transparency_data:
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _convert_array(image: Any) -> NDArray[np.uint8]:
    """(H, W, C) of an array. Raises ValueError."""
    import numpy as np

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        rule = "an image must be a Pillow image or an array of uint8 (give no transform)"
        raise ValueError(f"{rule}, got {type(image).__name__} of {pixels.dtype}")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in _MODES or 0 in pixels.shape:
        raise ValueError(
            f"an image must have shape (H, W), (H, W, 1) or (H, W, 3), got {pixels.shape}"
        )
    return pixels
