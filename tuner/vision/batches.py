"""A data set in memory, and its batches as float images."""

# N images, H W pixels, C channels, P = H * W * C bytes of one image

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuner.vision.augment import apply_cutout, apply_mixes, crop_and_flip
from tuner.vision.catalog import DataChoice, load_dataset_info, pin_dataset
from tuner.vision.datasets._dataset import (
    DatasetInfo,
    ImageArrays,
    assign_group_folds,
    resolve_data_folder,
    sample_groups,
)
from tuner.vision.epochs import Epoch, plan_epoch
from tuner.vision.models._model import PixelStats
from tuner.vision.recipe import Augmentation
from tuner.vision.settings import ClassifierSettings

LARGEST_SHARE = 0.5  # of a GPU's free memory that the images may take


def sample_evenly(rows_N: Tensor, most: int) -> Tensor:
    """At most `most` of these rows, at equal distances: rows of one class often follow another."""
    if len(rows_N) <= most:
        return rows_N
    return rows_N[torch.arange(most, device=rows_N.device) * len(rows_N) // most]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A data set as rows of bytes, one an image, on a device or, if it has no room, the host.

    groups_N: as of `ImageArrays`, on the host.
    """

    info: DatasetInfo
    rows_NP: Tensor
    labels_N: Tensor
    splits: dict[str, Tensor]
    groups_N: Tensor | None = None

    def describe_split(self, split: str) -> dict[str, float]:
        """The number of `images` in a split, and its `baseline`, the share of the largest class."""
        rows_N = self.splits[split].to(self.labels_N.device)
        largest = int(torch.bincount(self.labels_N[rows_N]).max())
        return {"images": len(rows_N), "baseline": largest / len(rows_N)}

    @property
    def searched_N(self) -> Tensor:
        """The rows of the training and the validation split, ascending."""
        return (
            torch.cat([self.splits["train"], self.splits["validation"]]).sort().values
        )

    def replace_validation(self, rows_N: Tensor) -> ImageSet:
        """The same images with the rows `rows_N` to validate on and the others to train on."""
        train_N = self.searched_N
        train_N = train_N[~torch.isin(train_N, rows_N)]
        images = replace(
            self, splits={**self.splits, "train": train_N, "validation": rows_N}
        )
        baseline = (
            images.describe_split("validation")["baseline"] if len(rows_N) else None
        )
        sizes: Any = {
            "train": len(train_N),
            "validation": len(rows_N),
            "baseline": baseline,
        }
        return replace(images, info=replace(self.info, **sizes))


def load_image_set(choice: DataChoice, device: torch.device) -> ImageSet:
    """The chosen data set, loaded once for all trials of a process. Raises DataError."""
    folder = resolve_data_folder(choice.data_dir)
    return _load_pinned_set(
        pin_dataset(choice)[0].dataset, folder, choice.split_seed, device
    )


@lru_cache(maxsize=2)
def _load_pinned_set(
    name: str, folder: Path, split_seed: int, device: torch.device
) -> ImageSet:
    info = load_dataset_info(DataChoice(name, str(folder), None, split_seed))
    return build_image_set(info, info.load(folder, split_seed=split_seed), device)


def split_for_trial(
    images: ImageSet, settings: ClassifierSettings, *, fold: int = -1
) -> ImageSet:
    """`images` in the training and validation splits of one trial; the test split is the same.

    settings: of the trial, not of its fold, which has another seed. fold: from 0, or the last one.
    Folds follow from `split_seed`, so all trials share them; with `resplit` (Nagler et al. 2024,
    "Reshuffling Resampling Splits Can Improve Generalization of Hyperparameter Optimization") the
    split, or the folds, follow from the trial's seed, too.
    """
    if settings.train_on == "train+validation":
        return images.replace_validation(images.searched_N[:0])
    if settings.train_on == "all":
        both = {"train": images.searched_N, "validation": images.splits["test"]}
        return replace(images, splits={**images.splits, **both}).replace_validation(
            images.searched_N[:0]
        )
    if not (settings.folds or settings.resplit):
        return images
    rows_N = images.searched_N
    labels_N = images.labels_N.cpu()[rows_N].numpy()
    groups_N = (
        rows_N.numpy() if images.groups_N is None else images.groups_N[rows_N].numpy()
    )
    seeds = [settings.split_seed, settings.seed]
    if settings.folds:
        seed = seeds if settings.resplit else settings.split_seed
        fold_N = assign_group_folds(labels_N, groups_N, settings.folds, seed=seed)
        return images.replace_validation(rows_N[fold_N == fold % settings.folds])
    rng = np.random.default_rng(seeds)
    chosen_N = sample_groups(
        labels_N, groups_N, len(images.splits["validation"]), rng=rng
    )
    return images.replace_validation(rows_N[chosen_N])


def build_image_set(
    info: DatasetInfo, arrays: ImageArrays, device: torch.device
) -> ImageSet:
    """The images of `arrays`, on `device` where it has room."""
    with warnings.catch_warnings():
        # torch warns that a tensor cannot be read-only. Nothing writes to it: batches are copies
        warnings.filterwarnings(
            "ignore", message="The given NumPy array is not writable"
        )
        rows_NP = torch.from_numpy(
            arrays.images_NHWC.reshape(len(arrays.images_NHWC), -1)
        )
    home = choose_device(rows_NP.nbytes, device)
    return ImageSet(
        info=info,
        rows_NP=rows_NP.to(home),
        labels_N=torch.tensor(arrays.labels_N, device=home),
        splits={key: torch.tensor(rows) for key, rows in arrays.splits.items()},
        groups_N=None if arrays.groups_N is None else torch.tensor(arrays.groups_N),
    )


def count_free_bytes(device: torch.device) -> int:
    """The memory that this process may still take of a GPU, which others may share."""
    free, total = torch.cuda.mem_get_info(device)
    index = torch.cuda.current_device() if device.index is None else device.index
    allowed = int(total * torch.cuda.get_per_process_memory_fraction(index))
    return min(free, allowed - torch.cuda.memory_reserved(device))


def choose_device(
    size: int,
    device: torch.device,
    *,
    free: Callable[[torch.device], int] = count_free_bytes,
) -> torch.device:
    """The device for `size` bytes of images: `device`, or the host to leave room for a model."""
    if device.type == "cuda" and size > LARGEST_SHARE * free(device):
        return torch.device("cpu")
    return device


class Batcher:
    """Batches of an image set as normalised float images and labels, on `device`.

    device: default the images' own. Images on the host go there through pinned memory, while the
    device still computes.
    """

    def __init__(
        self,
        images: ImageSet,
        *,
        dtype: torch.dtype,
        augmentation: Augmentation,
        device: torch.device | None = None,
    ) -> None:
        self._images = images
        self._augmentation = augmentation
        self._device = device or images.rows_NP.device
        self._dtype = dtype
        self.set_pixel_stats((images.info.mean, images.info.std))

    @property
    def image_size(self) -> int:
        """The height and width in px of the images, or of those that the features are of."""
        return self._images.info.image_size

    @property
    def home(self) -> torch.device:
        """Where the images are, and the rows that select them must be."""
        return self._images.rows_NP.device

    def set_pixel_stats(self, stats: PixelStats) -> None:
        """Normalise pixels from 0 to 1 to (pixel - mean) / std of each channel from now on."""
        size = self._images.info.image_size
        dtype = self._dtype
        self._normalise = build_normaliser(
            stats, size=size, dtype=dtype, device=self._device
        )

    def plan_epoch(self, number: int, *, seed: int) -> Epoch:
        """Epoch `number` over the training split; see `plan_epoch`."""
        return plan_epoch(
            self._images.splits["train"],
            seed=seed,
            epoch=number,
            image_size=self._images.info.image_size,
            augmentation=self._augmentation,
            device=self._device,
            home=self.home,
        )

    def build_training_batch(
        self, epoch: Epoch, positions: slice
    ) -> tuple[Tensor, Tensor]:
        """(x_NCHW, labels_N) at `positions`, augmented; shares_NK of the classes if mixed."""
        batch = self._augment_batch(epoch, positions)
        if epoch.partners is None or epoch.mixes is None:
            return batch
        partners = self._augment_batch(epoch.partners, positions)
        classes = self._images.info.num_classes
        return apply_mixes(
            batch, partners, epoch.mixes.select(positions), classes=classes
        )

    def _augment_batch(self, epoch: Epoch, positions: slice) -> tuple[Tensor, Tensor]:
        info = self._images.info
        rows_N = epoch.order_N[positions]
        draws = epoch.draws.select(positions)
        rows_NP, labels_N = self._select(rows_N)
        rows_NP = crop_and_flip(
            rows_NP,
            draws,
            channels=info.channels,
            image_size=info.image_size,
            augmentation=self._augmentation,
        )
        x_NCHW = apply_cutout(
            self._normalise(rows_NP), draws, augmentation=self._augmentation
        )
        return x_NCHW, labels_N

    def build_batch(self, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        """(x_NCHW, labels_N) of the images `rows_N`, not augmented."""
        rows_NP, labels_N = self._select(rows_N)
        return self._normalise(rows_NP), labels_N

    def select_labels(self, rows_N: Tensor) -> Tensor:
        """labels_N of the images `rows_N`, on the device that trains."""
        return self._move_to_device(self._images.labels_N.index_select(0, rows_N))

    def _select(self, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        """(bytes, labels) of the images `rows_N`, on the device that trains."""
        rows_NP = self._images.rows_NP.index_select(0, rows_N)
        return self._move_to_device(rows_NP), self.select_labels(rows_N)

    def _move_to_device(self, values: Tensor) -> Tensor:
        if values.device.type == self._device.type:
            return values
        return values.pin_memory().to(self._device, non_blocking=True)


def build_normaliser(
    stats: PixelStats,
    *,
    size: int,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> Callable[[Tensor], Tensor]:
    """Makes x_NCHW = (byte / 255 - mean) / std of each channel, in `dtype`, of rows of bytes."""
    scale_P, shift_P = (
        each.to(device, dtype) for each in compute_scale_shift(stats, pixels=size**2)
    )

    def normalise(rows_NP: Tensor) -> Tensor:
        # Over whole rows: broadcasting over 3 channels innermost would not vectorise
        x_NP = rows_NP.to(dtype).mul_(scale_P).add_(shift_P)
        # Stored with the channels last, so the view is channels_last without a copy
        return x_NP.view(len(rows_NP), size, size, -1).permute(0, 3, 1, 2)

    return normalise


def compute_scale_shift(stats: PixelStats, *, pixels: int) -> tuple[Tensor, Tensor]:
    """(scale_P, shift_P), in float64, that take bytes to (byte / 255 - mean) / std."""
    mean_C, std_C = torch.tensor(stats, dtype=torch.float64)
    return (1 / (255 * std_C)).repeat(pixels), (-mean_C / std_C).repeat(pixels)
