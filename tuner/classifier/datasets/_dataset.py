"""What the module of a data set declares, and the folder that it loads from."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.classifier.datasets._archive import Archive
    from tuner.classifier.datasets._arrays import ImageArrays


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """How a data set is loaded, its shape, its splits, its pixel statistics.

    load: called with the data folder and `split_seed`; raises DataError where the data cannot be
    had. train, validation, test: how many images. mean, std: one value a channel, of pixels scaled
    to [0, 1]. files: whether it is read from `data_dir`. archive: what it is downloaded as, if
    anything. classes: the labels' names in their order. title, origin and licence are for whoever
    receives a model.
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

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)


def data_folder(data_dir: str | None) -> Path:
    """Where data sets lie: `data_dir`, else $TUNER_DATA, else ~/.cache/tuner."""
    return Path(data_dir or os.environ.get("TUNER_DATA") or "~/.cache/tuner").expanduser()
