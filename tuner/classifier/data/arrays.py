"""What a data set's module loads, and the folder that it loads from. Nothing here needs torch."""

# N images, H W pixels, C channels

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuner.classifier.data.splits import IntArray


@dataclass(frozen=True, eq=False)
class ImageArrays:
    """Arrays on the host, and the positions of each split."""

    images_NHWC: npt.NDArray[np.uint8]
    labels_N: IntArray
    splits: dict[str, IntArray]


def data_folder(data_dir: str | None) -> Path:
    """Where data sets lie: `data_dir`, else $TUNER_DATA, else ~/.cache/tuner."""
    return Path(data_dir or os.environ.get("TUNER_DATA") or "~/.cache/tuner").expanduser()
