"""A data set in memory: every image as uint8, on the device that trains on it."""

# N images, H W pixels, C channels, P = H * W * C bytes of one image

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tuner.classifier.catalog import DATASETS
from tuner.classifier.datasets._dataset import DatasetInfo, data_folder

LARGEST_SHARE = 0.5  # of a GPU's free memory that the images may take


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A data set for a device. Images are rows of bytes, so that a batch is one copy of rows.

    The rows and the labels lie on the device, or, where it has no room, on the host.
    """

    info: DatasetInfo
    rows_NP: Tensor
    labels_N: Tensor
    splits: dict[str, Tensor]


def image_set(
    name: str, *, data_dir: str | None, split_seed: int, device: torch.device
) -> ImageSet:
    """The data set `name` for `device`. A worker loads it once for all of its trials.

    Raises DataError where the data cannot be had.
    """
    return _image_set(name, data_folder(data_dir), split_seed, device)


@lru_cache(maxsize=2)
def _image_set(name: str, folder: Path, split_seed: int, device: torch.device) -> ImageSet:
    info = DATASETS[name]
    arrays = info.load(folder, split_seed=split_seed)
    rows_NP = _as_tensor(arrays.images_NHWC.reshape(len(arrays.images_NHWC), -1))
    home = _home(rows_NP.nbytes, device)
    return ImageSet(
        info=info,
        rows_NP=rows_NP.to(home),
        labels_N=torch.tensor(arrays.labels_N, device=home),
        splits={key: torch.tensor(rows) for key, rows in arrays.splits.items()},
    )


def _home(size: int, device: torch.device) -> torch.device:
    """Where `size` bytes of images lie: on `device`, unless the model would not fit beside it."""
    if device.type == "cuda" and size > LARGEST_SHARE * _free_bytes(device):
        return torch.device("cpu")
    return device


def _free_bytes(device: torch.device) -> int:
    """What this process may still take of the memory of a GPU, which it may share."""
    free, total = torch.cuda.mem_get_info(device)
    allowed = int(total * torch.cuda.get_per_process_memory_fraction(device))
    return min(free, allowed - torch.cuda.memory_reserved(device))


def _as_tensor(array: npt.NDArray[np.uint8]) -> Tensor:
    """A tensor on the array's own memory, which may be a read-only map of a file."""
    with warnings.catch_warnings():
        # torch warns that a tensor cannot be read-only. Nothing writes to it: batches are copies
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
