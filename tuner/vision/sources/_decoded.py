"""Images decoded once, to arrays of one size in a folder that every process of the node maps.

    DATA_DIR/decoded/NAME-KEY/   images.npy, labels.npy, splits.npy, moments.npy, digests.npy,
                                 names.json, and info.json, which describes them

Rows are written one after the other and never to a map: on a full disk that would end the process.
"""

# N images, H W pixels, C channels, P = H * W * C bytes of one image

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tuner.errors import (
    DataError,
    UnreadableImagesError,
    describe_error,
    translate_error,
)
from tuner.experiment.files import read_json
from tuner.spec import quotas
from tuner.spec.settings import FaultsError
from tuner.vision.datasets._archive import map_file
from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays
from tuner.vision.progress import show_progress
from tuner.vision.shared_folders import create_partial_folder, ensure_folder
from tuner.vision.sources._images import (
    SPLITS,
    Images,
    check_sizes,
    complete_splits,
    count_images,
)
from tuner.vision.sources._pixels import DEEPEST, count_bits, crop_square
from tuner.wording import summarize_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = 5  # part of every key: what another version has decoded is left alone
INFO = "info.json"
NAMES = "names.json"
_ARRAYS = ("images.npy", "labels.npy", "splits.npy", "moments.npy", "digests.npy")
FILES = (*_ARRAYS, NAMES, INFO)
STORE = "decoded"  # the folder of all decoded sets, in the data folder
CONSTANT = 1.0  # in place of a standard deviation of 0, by which nothing can be divided
PATIENCE_S = 120.0  # for a decoded set to arrive on a node

_AT_ONCE = 512  # images that are decoded before the next are begun
_SHOWN = 5  # unreadable images that a message lists
_KEY_LENGTH = 12
_POLL_S = 0.1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# In INFO, beside lists
_DESCRIBED = ("channels", "image_size", "title", "content", "bits")


def describe_user_images(
    load: Callable[..., ImageArrays], sizes: Mapping[str, int], **described: Any
) -> DatasetInfo:
    """The description of a user's images without mean and std; `sizes` counts images of splits."""
    origin = "the images of the model's trainer"
    known: Any = {
        **sizes,
        "mean": (),
        "std": (),
        "origin": origin,
        "licence": "not stated",
    }
    return DatasetInfo(load, files=True, **known, **described)


def list_own_splits(splits_N: NDArray[Any]) -> tuple[str, ...]:
    """Which of validation and test came with images whose splits, as they came, are `splits_N`."""
    import numpy as np

    return tuple(SPLITS[number] for number in np.unique(splits_N) if number)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How images are decoded: the settings `image_size`, `image_bits` and `skip_unreadable`."""

    size: int
    bits: int | None = None
    skip_unreadable: bool = False


def decode(images: Images, how: Decoding, *, store: Path, name: str) -> Path:
    """The folder below `store` with `images` decoded; they are decoded now if it is missing.

    name: the folder's name, before a key of the images and of `how`. One of all processes that
    share the store decodes, and the others wait for it. Raises UnreadableImagesError for images
    that cannot be read, and OSError of the disk.
    """
    folder = find_decoded_folder(images, how, store=store, name=name)
    if folder is not None:
        ensure_folder(folder, lambda partial: _write_decoded(partial, images, how))
        return folder
    # Only their pixels tell whether they have changed
    store.mkdir(parents=True, exist_ok=True)
    with create_partial_folder(store) as partial:
        content = _write_decoded(partial, images, how)
        folder = store / f"{name}-{_compute_key(content, how)}"
        ensure_folder(
            folder, lambda new: [(partial / f).rename(new / f) for f in FILES]
        )
    return folder


def find_decoded_folder(
    images: Images, how: Decoding, *, store: Path, name: str
) -> Path | None:
    """The folder that `decode` makes, or None if only decoding can tell."""
    if images.fingerprint is None:
        return None
    return store / f"{name}-{_compute_key(images.fingerprint, how)}"


def _compute_key(made_from: str, how: Decoding) -> str:
    text = json.dumps([FORMAT, made_from, *astuple(how)])
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]


def _write_decoded(partial: Path, images: Images, how: Decoding) -> str:
    """Write all FILES to the empty folder `partial`; returns the digest of their content.

    All images have one scale. The bits that they use are known when all have been read, so images
    of fewer than 16 bits are read twice, unless `how` sets the bits.
    """
    first = _Writing(images, how, partial)
    content = first.run()
    if first.bits in (how.bits, DEEPEST):
        return content
    return _Writing(images, replace(how, bits=first.bits), partial).run()


@dataclass
class _Writing:
    """One decoding to the folder `partial`. used: the bits that its images use."""

    images: Images
    how: Decoding
    partial: Path
    used: set[int] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)

    @property
    def bits(self) -> int | None:
        """Of a channel, for images of more than 8: as they are set, else as they are used."""
        return self.how.bits or max(self.used, default=None)

    def run(self) -> str:
        """Write all FILES; returns the digest of their content."""
        import numpy as np

        images = self.images
        size = self.how.size
        moments = np.zeros((len(images.labels_N), 2, images.channels), np.int64)
        digests: list[bytes] = []
        kept: list[int] = []
        with (self.partial / "images.npy").open("wb") as file:
            _write_header(file, (len(images.labels_N), size, size, images.channels))
            for position, pixels in enumerate(self._iterate_pixels()):
                if pixels is not None:
                    file.write(pixels.tobytes())
                    digests.append(
                        hashlib.blake2b(pixels.tobytes(), digest_size=16).digest()
                    )
                    pixels_PC = pixels.reshape(-1, images.channels).astype(np.int64)
                    # Exact
                    moments[len(kept)] = pixels_PC.sum(0), (pixels_PC**2).sum(0)
                    kept.append(position)
            file.seek(0)  # NumPy leaves room in a header for any number of rows
            _write_header(file, (len(kept), size, size, images.channels))
        labels_N = images.labels_N[kept]
        splits_N = images.splits_N[kept]
        if self.unreadable:
            self._check_unreadable(labels_N, splits_N)
        np.save(self.partial / "labels.npy", labels_N)
        np.save(self.partial / "splits.npy", splits_N)
        np.save(self.partial / "moments.npy", moments[: len(kept)])
        np.save(self.partial / "digests.npy", np.frombuffer(b"".join(digests), "V16"))
        names = [
            images.name_of(position).removeprefix(images.root) for position in kept
        ]
        (self.partial / NAMES).write_text(json.dumps(names))
        digest = hashlib.sha256(json.dumps([images.classes, size]).encode())
        for part in (labels_N.tobytes(), splits_N.tobytes(), *digests):
            digest.update(part)
        info = {
            "format": FORMAT,
            "title": images.title,
            "classes": images.classes,
            "channels": images.channels,
            "image_size": size,
            "bits": self.bits,
            "skipped": sorted(self.unreadable),
            "content": digest.hexdigest(),
        }
        (self.partial / INFO).write_text(json.dumps(info) + "\n")
        return digest.hexdigest()

    def _check_unreadable(
        self, labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8]
    ) -> None:
        """Raise UnreadableImagesError unless they may be skipped, and enough images are left."""
        title = self.images.title
        classes = self.images.classes
        count = f"{len(self.unreadable)} of {len(self.images.labels_N)} images"
        if not self.how.skip_unreadable:
            raise UnreadableImagesError(
                f"{title}: {count} cannot be read: "
                f"{summarize_names(sorted(self.unreadable), _SHOWN)}; "
                "training.skip_unreadable=true trains without them"
            )
        what = f"{title}, without the {count} that cannot be read"
        with translate_error(UnreadableImagesError, what, of=FaultsError):
            check_sizes(classes, count_images(labels_N, splits_N, classes), title)

    def _iterate_pixels(self) -> Iterator[NDArray[np.uint8] | None]:
        """Every image in order; None for each that cannot be read, which is noted."""
        from concurrent.futures import ThreadPoolExecutor

        count = len(self.images.labels_N)
        threads = ThreadPoolExecutor(quotas.count_usable_cpus())
        with (
            threads if self.images.in_threads else nullcontext(),
            show_progress("decoding images", count) as advance,
        ):
            for start in range(0, count, _AT_ONCE):
                part = range(start, min(start + _AT_ONCE, count))
                apply: Any = threads.map if self.images.in_threads else map
                yield from apply(self._read, part)
                advance(len(part))

    def _read(self, position: int) -> NDArray[np.uint8] | None:
        channels = self.images.channels
        bits = self.how.bits
        try:
            image = self.images.read(position)
            if bits is None and (used := count_bits(image)):
                self.used.add(used)
            return crop_square(
                image, size=self.how.size, channels=channels, bits=bits or DEEPEST
            )
        except Exception as error:  # Pillow's decoders raise any type
            name = self.images.name_of(position)
            reason = describe_error(error).replace(f" {name!r}", "")
            self.unreadable.append(f"{name} ({reason})")
            return None


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    import numpy as np

    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


@dataclass(frozen=True, slots=True)
class DecodedSet:
    """The decoded set called `name`, in the data folder of any node; none can download it."""

    name: str

    @property
    def title(self) -> str:
        return self.name

    def resolve_path(self, folder: Path) -> Path:
        """Its path in the data folder `folder`. Raises DataError for an invalid name."""
        if not _NAME.fullmatch(self.name):
            raise DataError(f"no decoded data set can be called {self.name!r}")
        return folder / STORE / self.name

    def is_present(self, folder: Path) -> bool:
        return self.resolve_path(folder).is_dir()

    def is_missing(self, folder: Path) -> bool:
        return not self.is_present(folder)

    def wait_for_arrival(self, folder: Path, *, patience_s: float = PATIENCE_S) -> None:
        """Wait until it is in `folder`: a node that has just joined a cluster still receives it."""
        deadline = time.monotonic() + patience_s
        while self.is_missing(folder) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def fetch(self, folder: Path) -> None:
        """Raise DataError if it is missing: it cannot be downloaded."""
        if self.is_missing(folder):
            raise DataError(
                f"{self.name} is not in {folder / STORE}, and cannot be downloaded"
            )

    def read_names(self, folder: Path) -> list[str]:
        """The images' names by row: of files their paths within the folder. Raises DataError."""
        path = self.resolve_path(folder) / NAMES
        what = f"no names of images can be read from {path}"
        with translate_error(DataError, what, of=(OSError, ValueError, TypeError)):
            return list(map(str, json.loads(path.read_text())))

    def map_contents(self, folder: Path) -> list[NDArray[np.uint8]]:
        """The bytes of each of FILES, mapped. Raises OSError."""
        return [map_file(self.resolve_path(folder) / name) for name in FILES]

    def write(
        self, folder: Path, contents: Callable[[], Iterable[memoryview]], *, origin: str
    ) -> None:
        """Write `contents()`, the bytes of FILES, if it is missing. Raises DataError, OSError."""

        def write_files(partial_folder: Path) -> None:
            for name, content in zip(FILES, contents(), strict=False):
                (partial_folder / name).write_bytes(content)
            with translate_error(
                DataError, f"{origin} is not complete", of=(OSError, ValueError)
            ):
                _read(partial_folder)

        ensure_folder(self.resolve_path(folder), write_files)

    def read_info(self, folder: Path, *, split_seed: int) -> DatasetInfo:
        """Its description. Raises DataError if it is missing from `folder`, or damaged."""
        import numpy as np

        contents = self._open(folder)
        labels_N = contents.labels_N
        classes = contents.info["classes"]
        splits = contents.build_splits(seed=split_seed)
        counts = {
            name: np.bincount(labels_N[rows_N], minlength=len(classes))
            for name, rows_N in splits.items()
        }
        train_N = splits["train"]
        (_, height, width, _) = contents.images_NHWC.shape
        mean_C, square_C = contents.moments[train_N].sum(0) / (
            len(train_N) * height * width
        )
        variance_C = np.maximum(square_C - mean_C**2, 0)
        std_C = np.where(variance_C > 0, np.sqrt(variance_C) / 255, CONSTANT)
        measured_K = np.minimum(counts["validation"], counts["test"])
        return replace(
            contents.describe(
                self._load, {name: len(rows_N) for name, rows_N in splits.items()}
            ),
            mean=tuple((mean_C / 255).tolist()),
            std=tuple(std_C.tolist()),
            class_counts=tuple(np.bincount(labels_N, minlength=len(classes)).tolist()),
            copies=contents.count_copies(splits),
            relabelled=contents.list_relabelled(lambda: self.read_names(folder)),
            unmeasured=tuple(
                n for n, count in zip(classes, measured_K, strict=True) if not count
            ),
            baseline=float(counts["validation"].max() / counts["validation"].sum()),
            own_splits=list_own_splits(contents.splits_N),
        )

    def load_test_images(self, folder: Path) -> tuple[DatasetInfo, ImageArrays]:
        """All images as the test split, without mean and std. Raises DataError."""
        import numpy as np

        contents = self._open(folder)
        rows_N = np.arange(len(contents.labels_N))
        arrays = ImageArrays(contents.images_NHWC, contents.labels_N, {"test": rows_N})
        sizes = {"train": 0, "validation": 0, "test": len(rows_N)}
        return contents.describe(self._load, sizes), arrays

    def _load(self, folder: Path, *, split_seed: int) -> ImageArrays:
        contents = self._open(folder)
        splits = contents.build_splits(seed=split_seed)
        groups_N = contents.groups_N
        return ImageArrays(contents.images_NHWC, contents.labels_N, splits, groups_N)

    def _open(self, folder: Path) -> _Contents:
        path = self.resolve_path(folder)
        what = f"no decoded data set can be read from {path}"
        with translate_error(
            DataError, what, of=(OSError, ValueError, KeyError, TypeError)
        ):
            return _read(path)


@dataclass(frozen=True, eq=False)
class _Contents:
    """The contents of FILES; the images are a read-only map."""

    info: dict[str, Any]
    images_NHWC: NDArray[np.uint8]
    labels_N: NDArray[np.int64]
    splits_N: NDArray[np.uint8]
    moments: NDArray[np.int64]
    digests: NDArray[np.void]

    def describe(
        self, load: Callable[..., ImageArrays], sizes: Mapping[str, int]
    ) -> DatasetInfo:
        """The description without what depends on the split; `sizes` counts images of splits."""
        listed = {name: tuple(self.info[name]) for name in ("classes", "skipped")}
        plain = {name: self.info[name] for name in _DESCRIBED}
        return describe_user_images(load, sizes, **listed, **plain)

    @cached_property
    def groups_N(self) -> NDArray[np.int64]:
        """The position of the first image that each is a copy of: of most their own."""
        import numpy as np

        halves_N2 = np.array(self.digests).view(np.uint64).reshape(-1, 2)
        _, first_G, group_N = np.unique(
            halves_N2, axis=0, return_index=True, return_inverse=True
        )
        return np.asarray(first_G[group_N.reshape(-1)], np.int64)

    def build_splits(self, *, seed: int) -> dict[str, NDArray[np.int64]]:
        """As `complete_splits` has them."""
        return complete_splits(
            self.labels_N, self.splits_N, seed=seed, groups_N=self.groups_N
        )

    def list_relabelled(self, read_names: Callable[[], list[str]]) -> tuple[str, ...]:
        """A text for each image that has another label than the first of its copies."""
        import numpy as np

        first_N = self.groups_N
        labels_N = self.labels_N
        rows_N = np.flatnonzero(labels_N[first_N] != labels_N)
        names = read_names() if len(rows_N) else []

        def format_row(row: int) -> str:
            return f"{names[row]} ({self.info['classes'][labels_N[row]]})"

        pairs = zip(rows_N.tolist(), first_N[rows_N].tolist(), strict=True)
        return tuple(
            f"{format_row(row)} is {format_row(first)}" for row, first in pairs
        )

    def count_copies(self, splits: dict[str, NDArray[np.int64]]) -> int:
        """How many images of validation and test are in an earlier split, too."""
        seen: set[int] = set()
        copies = 0
        for rows_N in splits.values():
            groups = self.groups_N[rows_N].tolist()
            copies += sum(group in seen for group in groups)
            seen.update(groups)
        return copies


def _read(path: Path) -> _Contents:
    """Raises OSError, ValueError, KeyError or TypeError if `path` is no decoded set."""
    import numpy as np

    info = read_json(path / INFO)
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise ValueError(f"{INFO} is not of format {FORMAT}")
    images_NHWC, labels_N, splits_N, moments, digests = (
        np.load(path / name, mmap_mode="r", allow_pickle=False) for name in _ARRAYS
    )
    size = info["image_size"]
    channels = info["channels"]
    if images_NHWC.shape != (len(labels_N), size, size, channels):
        raise ValueError(f"images of shape {images_NHWC.shape} are not those of {INFO}")
    labels_N = np.array(labels_N)
    splits_N = np.array(splits_N)
    return _Contents(info, images_NHWC, labels_N, splits_N, moments, digests)
