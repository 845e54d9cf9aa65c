"""A data set that has been decoded: opened, described for a seed of its splits, sent to a node."""

# N images, C channels

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import DataError
from tuner.experiment.files import read_json
from tuner.vision.datasets._archive import folder_made_once, mapped
from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays
from tuner.vision.sources._decode import FILES, FORMAT, INFO
from tuner.vision.sources._images import SPLITS, complete_splits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ORIGIN, LICENCE = "the images of whoever trained it", "not stated"
CONSTANT = 1.0  # in place of a standard deviation of 0, which nothing can be divided by
PATIENCE_S = 120.0  # for what is decoded to arrive on a node
STORE = "decoded"  # the folder of all of them, in the data folder
_POLL_S = 0.1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class DecodedSet:
    """The decoded set called `name`, in whichever data folder a node has.

    It goes from node to node as an `Archive` does, but no node can download it.
    """

    name: str

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.name

    def path(self, folder: Path) -> Path:
        """Where it lies in the data folder `folder`. Raises DataError for what is no name."""
        if not _NAME.fullmatch(self.name):
            raise DataError(f"no decoded data set can be called {self.name!r}")
        return folder / STORE / self.name

    def is_in(self, folder: Path) -> bool:
        """Whether it is in the data folder `folder`."""
        return self.path(folder).is_dir()

    def is_missing(self, folder: Path) -> bool:
        """Whether it is not in the data folder `folder`."""
        return not self.is_in(folder)

    def await_in(self, folder: Path, *, patience_s: float = PATIENCE_S) -> None:
        """Wait until it is in `folder`: a node that has just joined a cluster still receives it."""
        deadline = time.monotonic() + patience_s
        while self.is_missing(folder) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def fetch(self, folder: Path) -> None:
        """Nothing where it is there; raises DataError where it is not: nobody offers it."""
        if self.is_missing(folder):
            raise DataError(f"{self.name} is not in {folder / STORE}, and cannot be downloaded")

    def contents(self, folder: Path) -> list[NDArray[np.uint8]]:
        """The bytes of each of FILES, mapped. Raises OSError."""
        return [mapped(self.path(folder) / name) for name in FILES]

    def write(
        self, folder: Path, contents: Callable[[], Iterable[memoryview]], *, origin: str
    ) -> None:
        """Write `contents()`, the bytes of each of FILES, unless the set is there already.

        It appears only when it is complete. Raises DataError for one that is not, and OSError.
        """

        def fill(partial_folder: Path) -> None:
            for name, content in zip(FILES, contents(), strict=False):
                (partial_folder / name).write_bytes(content)
            try:
                _read(partial_folder)
            except (OSError, ValueError) as error:
                raise DataError(f"{origin} is not complete: {error}") from error

        folder_made_once(self.path(folder), fill)

    def info(self, folder: Path, *, split_seed: int) -> DatasetInfo:
        """Its description. Raises DataError where it is not in `folder`, or damaged."""
        contents = self._open(folder)
        splits = contents.splits(split_seed)
        mean_C, std_C = contents.mean_and_std(splits["train"])
        return DatasetInfo(
            load=self._load,
            channels=contents.info["channels"],
            image_size=contents.info["image_size"],
            classes=tuple(contents.info["classes"]),
            train=len(splits["train"]),
            validation=len(splits["validation"]),
            test=len(splits["test"]),
            mean=tuple(mean_C.tolist()),
            std=tuple(std_C.tolist()),
            files=True,
            title=contents.info["title"],
            origin=ORIGIN,
            licence=LICENCE,
            class_counts=contents.class_counts(),
            copies=contents.copies_across(splits),
            unmeasured=contents.absent_from(splits["validation"], splits["test"]),
            content=contents.info["content"],
            bits=contents.info["bits"],
            skipped=tuple(contents.info["skipped"]),
            baseline=contents.baseline(splits["validation"]),
            own_splits=contents.own_splits(),
        )

    def to_measure(self, folder: Path) -> tuple[DatasetInfo, ImageArrays]:
        """All images as the test split; the mean and std are left out. Raises DataError."""
        import numpy as np

        contents = self._open(folder)
        rows_N = np.arange(len(contents.labels_N))
        info = DatasetInfo(
            load=self._load,
            channels=contents.info["channels"],
            image_size=contents.info["image_size"],
            classes=tuple(contents.info["classes"]),
            train=0,
            validation=0,
            test=len(rows_N),
            mean=(),
            std=(),
            files=True,
            title=contents.info["title"],
            origin=ORIGIN,
            licence=LICENCE,
            content=contents.info["content"],
            bits=contents.info["bits"],
            skipped=tuple(contents.info["skipped"]),
        )
        return info, ImageArrays(contents.images_NHWC, contents.labels_N, {"test": rows_N})

    def _load(self, folder: Path, *, split_seed: int) -> ImageArrays:
        contents = self._open(folder)
        return ImageArrays(contents.images_NHWC, contents.labels_N, contents.splits(split_seed))

    def _open(self, folder: Path) -> _Contents:
        try:
            return _read(self.path(folder))
        except (OSError, ValueError, KeyError, TypeError) as error:
            where = self.path(folder)
            raise DataError(f"no decoded data set can be read from {where}: {error}") from error


@dataclass(frozen=True, eq=False)
class _Contents:
    """What FILES hold; the images are a read-only map."""

    info: dict[str, Any]
    images_NHWC: NDArray[np.uint8]
    labels_N: NDArray[np.int64]
    splits_N: NDArray[np.uint8]
    moments: NDArray[np.int64]
    copied: NDArray[np.int64]

    def splits(self, seed: int) -> dict[str, NDArray[np.int64]]:
        return complete_splits(self.labels_N, self.splits_N, seed=seed)

    def mean_and_std(
        self, rows_N: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the pixels of some images, scaled to [0, 1]; the std of one value is CONSTANT."""
        import numpy as np

        pixels = len(rows_N) * self.images_NHWC.shape[1] * self.images_NHWC.shape[2]
        mean_C, square_C = self.moments[rows_N].sum(0) / pixels
        variance_C = np.maximum(square_C - mean_C**2, 0)
        return mean_C / 255, np.where(variance_C > 0, np.sqrt(variance_C) / 255, CONSTANT)

    def baseline(self, rows_N: NDArray[np.int64]) -> float:
        """The share of the largest class among some images."""
        import numpy as np

        return float(np.bincount(self.labels_N[rows_N]).max() / len(rows_N))

    def own_splits(self) -> tuple[str, ...]:
        numbers = {*self.splits_N.tolist()}
        return tuple(name for name in SPLITS[1:] if SPLITS.index(name) in numbers)

    def class_counts(self) -> tuple[int, ...]:
        import numpy as np

        counts_K = np.bincount(self.labels_N, minlength=len(self.info["classes"]))
        return tuple(counts_K.tolist())

    def absent_from(self, *splits: NDArray[np.int64]) -> tuple[str, ...]:
        """The classes that one of the splits, or several, have no image of."""
        there = [{*self.labels_N[rows_N].tolist()} for rows_N in splits]
        names = enumerate(self.info["classes"])
        return tuple(name for number, name in names if any(number not in each for each in there))

    def copies_across(self, splits: dict[str, NDArray[np.int64]]) -> int:
        """How many images of validation and test are in an earlier split, too."""
        import numpy as np

        positions_N, groups_N = self.copied.T
        seen: set[int] = set()
        found = 0
        for rows_N in splits.values():
            here = groups_N[np.isin(positions_N, rows_N)].tolist()
            found += sum(group in seen for group in here)
            seen.update(here)
        return found


def _read(path: Path) -> _Contents:
    """Raises OSError, ValueError, KeyError or TypeError for what is no decoded set."""
    import numpy as np

    info = read_json(path / INFO)
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise ValueError(f"{INFO} is not of format {FORMAT}")
    images_NHWC, labels_N, splits_N, moments, copied = (
        np.load(path / name, mmap_mode="r", allow_pickle=False) for name in FILES if name != INFO
    )
    size, channels = info["image_size"], info["channels"]
    if images_NHWC.shape != (len(labels_N), size, size, channels):
        raise ValueError(f"images of shape {images_NHWC.shape} are not those of {INFO}")
    labels_N, splits_N, copied = (np.array(array) for array in (labels_N, splits_N, copied))
    return _Contents(info, images_NHWC, labels_N, splits_N, moments, copied)
