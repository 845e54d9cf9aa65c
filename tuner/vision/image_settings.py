"""What is done to images before they are trained on, and of what views they are evaluated.

Nothing here imports torch, so that a spec is checked in milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from pydantic import Field

from tuner.errors import Fault
from tuner.settings import Settings


class ImageSettings(Settings):
    """Augmentation in training, and the views of an image that an evaluation averages over."""

    crop_padding: int = Field(
        0, ge=0, description="px that are added on each side before a random crop"
    )
    crop_fill: Literal["black", "reflect"] = Field(
        "black", description="what crop_padding adds: black pixels, or the image's own, mirrored"
    )
    flip: bool = Field(False, description="whether to mirror each image with probability 1/2")
    alternating_flip: bool = Field(
        False, description="with flip: mirror each image in every second epoch instead"
    )
    cutout: int = Field(
        0,
        ge=0,
        description="side in px of a square of each image that is set to the mean; 0 for none",
    )
    augment_at_once: bool = Field(
        False,
        description="whether to augment all images of an epoch before it: fewer and larger "
        "operations, more memory",
    )
    test_time_flip: bool = Field(
        False,
        description="whether to evaluate the mean of the logits of an image and its mirror image",
    )
    test_time_shift: int = Field(
        0,
        ge=0,
        description="evaluate images shifted by so many px, too, which weigh half; 0 for none",
    )


def augmentation_faults(settings: ImageSettings, faulty: Collection[str]) -> Iterator[Fault]:
    """What does not fit together; `faulty` names settings that have a fault already."""
    if settings.alternating_flip and not settings.flip and "flip" not in faulty:
        yield Fault("alternating_flip", "needs `flip`", settings.alternating_flip)


def size_limits(image_size: int) -> dict[str, tuple[int, str]]:
    """The most that a setting may be for images of this size, and what that is."""
    half = image_size // 2, "half the image size"
    return {
        "crop_padding": half,
        "cutout": (image_size, "the image size"),
        "test_time_shift": half,
    }
