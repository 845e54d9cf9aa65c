"""A user's own images: what a plan says of them, and doubts about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tuner.experiment.results.split_details import UNEVEN
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.pixel_stats import find_weight_stats
from tuner.vision.settings import ClassifierSettings
from tuner.vision.sources._decoded import CONSTANT
from tuner.vision.weights import (
    read_exported_stats,
)
from tuner.wording import format_amount, summarize_names

# Of 1: the standard deviation of pixels in which hardly anything is to be seen
_FLAT = 0.02
_SHOWN = 5  # classes or images that a message lists


def describe_dataset(info: DatasetInfo) -> dict[str, Any]:
    """What a plan says of images: {title, images, shape, classes, bits, skipped}.

    images: of each split. classes: how many images each has, where they have been counted, else
    their number. bits, skipped: of the `DatasetInfo`, left out where they are empty.
    """
    return {
        "title": info.title,
        "images": {
            name: getattr(info, name) for name in ("train", "validation", "test")
        },
        "shape": [info.channels, info.image_size, info.image_size],
        "classes": dict(zip(info.classes, info.class_counts, strict=True))
        if info.class_counts
        else info.num_classes,
        **({"bits": info.bits} if info.bits else {}),
        **({"skipped": list(info.skipped)} if info.skipped else {}),
    }


def find_doubts(info: DatasetInfo) -> Iterator[str]:
    """What makes measures on these images doubtful, in words."""
    stds = [0.0 if std == CONSTANT else std for std in info.std]
    if stds and max(stds) < _FLAT:
        yield (
            f"the images are almost of one colour, their pixels differ by {max(stds):.1g} of 1: "
            "if a few pixels of files of 16 bits are far brighter, set training.image_bits"
        )
    if info.skipped:
        count = format_amount(len(info.skipped), "image")
        yield f"{count} skipped that cannot be read: {summarize_names(info.skipped, _SHOWN)}"
    if info.unmeasured:
        more = ", ..." if len(info.unmeasured) > _SHOWN else ""
        yield (
            "the validation or test split has no image of these classes, so no measure on it tells "
            f"of them: {', '.join(info.unmeasured[:_SHOWN])}{more}"
        )
    if info.copies:
        count = format_amount(info.copies, "image")
        yield (
            f"{count} of the validation or test split are exact copies of images of another "
            "split: measures on these flatter"
        )
    if info.relabelled:
        count = format_amount(len(info.relabelled), "image")
        yield (
            f"{count} with a copy of another label, so one of the labels is wrong: "
            f"{summarize_names(info.relabelled, _SHOWN)}"
        )
    if has_uneven_classes(info):
        most, least = (
            f"{info.classes[info.class_counts.index(count)]!r} has {count:,}"
            for count in (max(info.class_counts), min(info.class_counts))
        )
        yield (
            f"the classes are uneven: {most} images, {least}; "
            "objective.metric=val_balanced_accuracy counts every class alike, and "
            "training.class_weights=balanced weighs them alike in the loss"
        )


def has_uneven_classes(info: DatasetInfo) -> bool:
    return max(info.class_counts, default=0) > UNEVEN * min(
        info.class_counts, default=0
    )


def suggest_pixel_stats(settings: ClassifierSettings) -> str | None:
    """Which mean and std pixels get for a file of weights that does not say its own, or None."""
    source = settings.start_from
    if source is None or settings.pixel_stats != "auto" or read_exported_stats(source):
        return None
    whose = "those of the data"
    if find_weight_stats(settings):
        whose = f"those of the pretrained weights of {settings.model}"
    return (
        f"{source} does not say by which mean and std its pixels were normalised, so {whose} are "
        "used: set training.pixel_stats={mean: [...], std: [...]} to what its training used"
    )
