"""What a checkpoint says of the images of a user's own that it was trained on.

An export needs it where these may not be any more. Of a data set that ships a checkpoint says
nothing: its name is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, DataError
from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays

DATA = "data"  # the key in a Learner's state

# what is of this machine, or never of a user's own
_LEFT_OUT = ("load", "archive", "files", "skipped")


def described(info: DatasetInfo) -> dict[str, Any]:
    """`info` as plain values."""
    values = {f.name: getattr(info, f.name) for f in fields(info) if f.name not in _LEFT_OUT}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def info_in(state: Mapping[str, Any]) -> DatasetInfo | None:
    """What a checkpoint says, which has no data to load; None where it says nothing.

    Raises CheckpointError where that is damaged.
    """
    said = state.get(DATA)
    if said is None:
        return None
    try:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
        }
        return DatasetInfo(_not_here, files=True, **values)
    except (AttributeError, TypeError) as error:
        raise CheckpointError(f"what a checkpoint says of its data is damaged: {error}") from error


def check_same(said: Mapping[str, Any], info: DatasetInfo) -> None:
    """Raise DataError where a checkpoint was trained on other images than `info` describes.

    Its test images might be among those that it was trained on.
    """
    if info.content and said.get("content") != info.content:
        raise DataError(
            f"{info.title}: these are not the images that the checkpoint was trained on "
            f"({_in_words(said)}; now {_in_words(described(info))}), so its splits are others"
        )


def _in_words(data: Mapping[str, Any]) -> str:
    counts = " / ".join(f"{data.get(split):,}" for split in ("train", "validation", "test"))
    return f"{counts} images of {len(data.get('classes', ()))} classes, {data.get('image_size')} px"


def _not_here(folder: Path, *, split_seed: int) -> ImageArrays:
    raise DataError("a checkpoint says what it was trained on, and does not hold it")
