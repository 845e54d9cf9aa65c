"""`my_module:load`: the images that a user's function returns, arrays or map-style Datasets.

    def load():
        return images, labels                      # uint8 (N, H, W) or (N, H, W, C), N labels
        return images, labels, splits              # and "train", "val" or "test" for each
        return MyDataset()                         # of (Pillow image or array, label)
        return {"train": ..., "val": ..., "test": ...}   # of either

It is called for every search, since only its result shows whether the images have changed.
"""

# N images

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import TunerError, describe_error, translate_error
from tuner.spec.loading import load_trainable
from tuner.spec.settings import FaultsError, bad_value
from tuner.vision.sources._images import (
    SPLITS,
    Images,
    Source,
    check_sizes,
    count_images,
    parse_split,
    sample_positions,
)
from tuner.vision.sources._pixels import count_channels, measure_shorter_side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORMS = "must return (images, labels), a map-style Dataset, or a mapping of train, val, test to it"


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the images, with their labels as the user gives them."""

    read: Callable[[int], Any]
    labels: Sequence[Any]
    classes: tuple[str, ...] = ()  # the names of labels that are numbers from 0


def import_loader(path: str) -> Any:
    """The function at `path` ("module:name"). Raises FaultsError."""
    try:
        loader = load_trainable(path)
    except FaultsError:
        raise
    except Exception as error:  # the user's module may raise any type
        raise bad_value(
            f"cannot be imported ({type(error).__name__}: {error})", path
        ) from error
    if not callable(loader):
        raise bad_value("must be a function that returns the images", path)
    return loader


def find(path: str, folder: Path) -> Images:
    """The images that the function at `path` returns; `folder` is not used. Raises FaultsError."""
    loader = import_loader(path)
    try:
        parts = parse_parts(loader(), path)
        return build_images(parts, location=path, title=f"the images of {path}")
    except (TunerError, FaultsError):
        raise
    except Exception as error:  # the user's code may raise any type
        raise bad_value(
            f"raised {type(error).__name__}: {describe_error(error)}", path
        ) from error


SOURCE = Source("my_module:load", find, import_loader)


def parse_parts(returned: Any, location: str) -> dict[str, Part]:
    """The result of a user's function, by its splits. Raises FaultsError."""
    if isinstance(returned, Mapping):
        splits = [parse_split(str(key)) for key in returned]
        if None in splits or len(set(splits)) < len(splits):
            keys = ", ".join(map(str, returned))
            raise bad_value(f"must map train, val and test, got {keys}", location)
        values = zip(splits, returned.values(), strict=True)
        return {str(split): _parse_part(value, location) for split, value in values}
    if isinstance(returned, tuple) and len(returned) == 3:
        return _split_part(_parse_part(returned[:2], location), returned[2], location)
    return {"train": _parse_part(returned, location)}


def build_images(
    parts: Mapping[str, Part],
    *,
    location: str,
    title: str,
    fingerprint: str | None = None,
) -> Images:
    """The images of all parts, one after the other. Raises FaultsError."""
    import numpy as np

    ordered = [(split, parts[split]) for split in SPLITS if split in parts]
    owners = [(part, n) for _, part in ordered for n in range(len(part.labels))]
    if not owners:
        raise bad_value("has no images", location)
    labels = [label for _, part in ordered for label in part.labels]
    classes, labels_N = _number_labels(
        labels, next((p.classes for _, p in ordered if p.classes), ())
    )
    lengths = [len(part.labels) for _, part in ordered]
    splits_N = np.repeat(
        np.array([SPLITS.index(s) for s, _ in ordered], np.uint8), lengths
    )
    check_sizes(classes, count_images(labels_N, splits_N, classes), location)

    def read(position: int) -> Any:
        part, number = owners[position]
        return part.read(number)

    what = "has an image that cannot be read"
    with translate_error(lambda rule: bad_value(rule, location), what):
        first = read(0)
        channels = count_channels(first)
        own_size = measure_shorter_side(first)
    if channels == 1:  # others may be in colour
        for position in sample_positions(len(owners)):
            with suppress(Exception):  # decoding reports it
                channels = max(channels, count_channels(read(position)))
    return Images(
        title=title,
        classes=classes,
        labels_N=labels_N,
        splits_N=splits_N,
        read=read,
        name_of=lambda position: f"image {position}",
        channels=channels,
        own_size=own_size,
        fingerprint=fingerprint,
    )


def _parse_part(value: Any, location: str) -> Part:
    """A pair of arrays, or a map-style Dataset."""
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "__len__"):
        images, labels = value
        if len(images) != len(labels):
            raise bad_value(
                f"has {len(images)} images and {len(labels)} labels", location
            )
        return Part(images.__getitem__, _convert_labels(labels, location))
    if callable(getattr(value, "__getitem__", None)) and callable(
        getattr(value, "__len__", None)
    ):
        return _read_dataset(value, location)
    raise bad_value(_FORMS, location, (type(value).__name__,))


def _read_dataset(dataset: Any, location: str) -> Part:
    """Labels are read without the images from `targets` or `labels`, if the data set has these."""
    all_labels: list[Any] = [
        getattr(dataset, name, ()) for name in ("targets", "labels")
    ]
    labels = next(
        (e for e in all_labels if hasattr(e, "__len__") and len(e) == len(dataset)),
        None,
    )
    if labels is None or getattr(dataset, "target_transform", None) is not None:
        labels = [_read_item(dataset, n, location)[1] for n in range(len(dataset))]
    plain = _convert_labels(labels, location)

    def read(number: int) -> Any:
        image, label = _read_item(dataset, number, location)
        if _convert_label(label) != plain[number]:
            raise ValueError(
                f"it has label {_convert_label(label)!r}, and among all {plain[number]!r}"
            )
        return image

    return Part(read, plain, tuple(map(str, getattr(dataset, "classes", None) or ())))


def _read_item(dataset: Any, number: int, location: str) -> tuple[Any, Any]:
    item = dataset[number]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise bad_value(
            "its items must be (image, label)", location, (type(item).__name__,)
        )
    return item[0], item[1]


def _convert_label(label: Any) -> Any:
    """A number of NumPy or torch as Python's."""
    is_scalar = hasattr(label, "item") and math.prod(getattr(label, "shape", ())) == 1
    return label.item() if is_scalar else label


def _convert_labels(labels: Any, location: str) -> list[Any]:
    """Raises FaultsError for a label that is neither a number nor a name."""
    plain = [_convert_label(label) for label in labels]
    for label in plain:
        if not isinstance(label, int | float | str | bytes) or label != label:
            shown = (
                repr(label) if isinstance(label, float | None) else type(label).__name__
            )
            raise bad_value(
                f"must have a number or a name as label of each image, got {shown}",
                location,
            )
    return plain


def _number_labels(
    labels: Sequence[Any], names: tuple[str, ...]
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """(classes, labels from 0): by `names` where the labels are their numbers."""
    import numpy as np

    if names and all(
        isinstance(label, int) and 0 <= label < len(names) for label in labels
    ):
        return names, np.array(labels, np.int64)
    values = sorted(set(labels), key=lambda value: (isinstance(value, str), value))
    numbers = {value: number for number, value in enumerate(values)}
    return tuple(map(str, values)), np.array(
        [numbers[label] for label in labels], np.int64
    )


def _split_part(part: Part, splits: Any, location: str) -> dict[str, Part]:
    """`part` divided by the split of each image."""
    named = [parse_split(str(name)) for name in splits]
    if len(named) != len(part.labels) or None in named:
        raise bad_value(
            "its splits must name train, val or test for each image", location
        )

    def select(positions: Sequence[int]) -> Part:
        labels = [part.labels[position] for position in positions]
        return Part(lambda number: part.read(positions[number]), labels, part.classes)

    return {
        split: select([n for n, s in enumerate(named) if s == split])
        for split in SPLITS
    }
