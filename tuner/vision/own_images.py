"""A user's own images: what a plan says of them, doubts about them, their default experiment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

from tuner.errors import SpecError
from tuner.settings import FaultsError
from tuner.vision.catalog import DataChoice, dataset_info, describe, short_name
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.sources._decoded import CONSTANT
from tuner.wording import amount_of, some_of

_UNEVEN = 3.0  # times as many images in the largest class as in the smallest

_FLAT = 0.02  # of 1: the standard deviation of pixels in which hardly anything is to be seen
_SHOWN = 5  # classes or images that a message lists

_SIZE = 64  # px that are trained on unless set: a first search on a CPU takes minutes
_SMALL = 16  # px up to which a network of three layers sees a whole image
_BATCH = 32  # images in a step; fewer of a few images, some of which may be unreadable
_STEPS = 800  # that the best trials train: few images make many short epochs
_EPOCHS = 5  # at least
_TRIALS = 9
# Where most data sets are near their best; the search begins with it
_FIRST = {"lr": 3e-3, "weight_decay": 0.05, "crop_scale": 0.35, "flip": True}


def outline_of(info: DatasetInfo) -> dict[str, Any]:
    """What a plan says of images: {title, images, shape, classes, bits, skipped}.

    images: of each split. classes: how many images each has, where they have been counted, else
    their number. bits, skipped: of the `DatasetInfo`, left out where they are empty.
    """
    return {
        "title": info.title,
        "images": {name: getattr(info, name) for name in ("train", "validation", "test")},
        "shape": [info.channels, info.image_size, info.image_size],
        "classes": dict(zip(info.classes, info.class_counts, strict=True))
        if info.class_counts
        else info.num_classes,
        **({"bits": info.bits} if info.bits else {}),
        **({"skipped": list(info.skipped)} if info.skipped else {}),
    }


def doubts(info: DatasetInfo) -> list[str]:
    """What makes measures on these images doubtful, in words."""
    messages = [*_of_pixels(info)]
    if info.skipped:
        count = amount_of(len(info.skipped), "image")
        messages.append(f"{count} skipped that cannot be read: {some_of(info.skipped, _SHOWN)}")
    if info.unmeasured:
        more = ", ..." if len(info.unmeasured) > _SHOWN else ""
        messages.append(
            "the validation or test split has no image of these classes, so no measure on it tells "
            f"of them: {', '.join(info.unmeasured[:_SHOWN])}{more}"
        )
    if info.copies:
        count = amount_of(info.copies, "image")
        messages.append(
            f"{count} of the validation or test split are exact copies of images of another "
            "split: measures on these flatter"
        )
    if info.class_counts and max(info.class_counts) > _UNEVEN * min(info.class_counts):
        most, least = (
            f"{info.classes[info.class_counts.index(count)]!r} has {count:,}"
            for count in (max(info.class_counts), min(info.class_counts))
        )
        messages.append(f"the classes are uneven: {most} images, {least}")
    return messages


def _of_pixels(info: DatasetInfo) -> Iterator[str]:
    stds = [0.0 if std == CONSTANT else std for std in info.std]
    if stds and max(stds) < _FLAT:
        yield (
            f"the images are almost of one colour, their pixels differ by {max(stds):.1g} of 1: "
            "if a few pixels of files of 16 bits are far brighter, set training.image_bits"
        )


def default_experiment(dataset: str, directory: Path) -> dict[str, Any]:
    """The plain values of a spec that searches for a classifier of these images.

    dataset: as in `training.dataset`; the path of a folder, seen from `directory`, becomes
    absolute. Raises SpecError for images that cannot work, and DataError if they are not there.
    """
    scheme, _, path = dataset.partition(":")
    if scheme == "folder":
        dataset = f"folder:{os.path.abspath(directory / Path(path).expanduser())}"
    choice = DataChoice(dataset)
    try:
        info = describe(choice) or dataset_info(choice)
    except FaultsError as error:
        faults = [fault.under("training.dataset") for fault in error.faults]
        raise SpecError(faults, dataset) from error
    size = min(info.image_size, _SIZE)
    model = {"model": "cnn", "width": 32} if size <= _SMALL else {"model": "resnet10"}
    batch_size = min(_BATCH, max(1, info.train // 2))
    epochs = max(_EPOCHS, ceil(_STEPS * batch_size / info.train))
    return {
        "name": short_name(dataset),
        "training": {
            "dataset": dataset,
            "image_size": size,
            **model,
            "batch_size": batch_size,
            "optimizer": "adamw",
            "lr_schedule": "one_cycle",
            "label_smoothing": 0.1,
            "decay_norms_and_biases": False,
        },
        "search": {
            "strategy": "hyperopt",
            "space": {
                "lr": "loguniform(1e-3, 1e-2)",
                "weight_decay": "loguniform(1e-3, 0.2)",
                "crop_scale": "choice([0.35, 0.7, 1.0])",
                "flip": "choice([True, False])",
            },
            "points_to_evaluate": [_FIRST],
        },
        "scheduler": {"name": "asha", "max_t": epochs, "reduction_factor": 3},
        "num_samples": _TRIALS,
    }
