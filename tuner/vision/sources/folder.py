"""`folder:PATH`: a folder with one sub-folder of image files for each class.

    photos/daisy/*.jpg                 or   photos/train/daisy/*.jpg
    photos/rose/2024/*.png                  photos/val/daisy/*.jpg      valid, validation
                                            photos/test/daisy/*.jpg

Files are found by listing; what Pillow cannot read is told when they are decoded. Names that begin
with a dot are passed over, and so are other files, with a warning. A link is followed only to a
file within the folder.
"""

# N images, K classes

from __future__ import annotations

import hashlib
import logging
import os
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import did_you_mean, reason_of
from tuner.vision.sources._images import (
    LARGEST_SIZE,
    SPLITS,
    Images,
    Outline,
    Source,
    check_sizes,
    fault,
    split_of,
    spread_over,
)
from tuner.vision.sources._pixels import bombs_refused, open_image, shorter_side
from tuner.wording import amount_of, some_of

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (
    *(".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm"),
    *(".tif", ".tiff", ".webp"),
)
CHANNELS = 3  # as networks expect photographs; a grey image has three equal ones

_log = logging.getLogger(__name__)

_LOOSE = "outside of the folders of classes"
_KINDS = 3  # of files that are left out which a message lists
_KNOWN = 10  # classes that a message lists


@dataclass(frozen=True, slots=True)
class _File:
    """An image: its split, its class, its path in the folder, and what changes when it does."""

    split: str
    label: str
    path: str
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class _Listing:
    """others: how many files are left out, of each kind.

    depth: how many folders an image is in that lies in its class's own.
    """

    root: Path
    files: tuple[_File, ...]
    others: Counter[str]
    depth: int

    @property
    def classes(self) -> tuple[str, ...]:
        """By name: the first has label 0, as with torchvision's ImageFolder."""
        return tuple(sorted({file.label for file in self.files if file.split == "train"}))

    @property
    def title(self) -> str:
        return f"{self.root.resolve().name}, a folder of images"

    def counts(self) -> dict[str, tuple[int, ...]]:
        numbers = {label: number for number, label in enumerate(self.classes)}
        counts = {name: [0] * len(numbers) for name in SPLITS}
        for file in self.files:
            counts[file.split][numbers[file.label]] += 1
        return {name: tuple(each) for name, each in counts.items()}

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(repr((file.path, file.size, file.changed_ns)).encode())
        return digest.hexdigest()

    def doubts(self) -> Iterator[str]:
        """What was perhaps not meant, in words."""
        if self.others:
            kinds = [f"{count:,} {kind}" for kind, count in self.others.most_common(_KINDS)]
            more = ", ..." if len(self.others) > _KINDS else ""
            count = amount_of(self.others.total(), "file")
            yield f"{count} in {self.root} left out: {', '.join(kinds)}{more}"
        if all(file.path.count("/") > self.depth for file in self.files):
            yield (
                f"the folders of the classes {', '.join(self.classes[:_KINDS])} hold no image "
                f"themselves, all lie deeper, as {self.files[0].path}: are the classes the deeper "
                "folders?"
            )

    def own_size(self) -> int:
        """The median of the shorter sides in px of some images, spread over all."""
        sides = []
        with bombs_refused():
            for position in spread_over(len(self.files)):
                try:
                    with open_image(self.root / self.files[position].path) as image:
                        sides.append(shorter_side(image))
                except Exception:  # these are told when they are decoded
                    continue
        return int(statistics.median(sides)) if sides else LARGEST_SIZE


def outline(place: str) -> Outline:
    """The classes and counts of the folder at `place`. Raises FaultsError."""
    listing = _list(place)
    size = min(listing.own_size(), LARGEST_SIZE)
    return Outline(
        listing.classes,
        listing.counts(),
        CHANNELS,
        size,
        listing.title,
        doubts=tuple(listing.doubts()),
    )


def find(place: str, folder: Path) -> Images:
    """The images of the folder at `place`; the data folder is not used. Raises FaultsError."""
    listing = _list(place)
    return _images_of(listing, listing.classes, CHANNELS, listing.fingerprint())


def find_all(place: str, classes: tuple[str, ...], channels: int) -> Images:
    """Every image of the folder at `place`, or of its `test`, for a model of these `classes`.

    The folder needs neither all of the classes nor several of them. Raises FaultsError.
    """
    listing = _list_all(place, classes)
    for doubt in listing.doubts():
        _log.warning(doubt)
    made_from = [listing.fingerprint(), classes, channels]
    return _images_of(listing, classes, channels, f"all of {made_from}")


def is_labelled(folder: Path, classes: tuple[str, ...]) -> bool:
    """Whether `folder` has a sub-folder for one of the classes, or a `test`."""
    names = _folders(folder) if folder.is_dir() else []
    return any(name in classes or split_of(name) == "test" for name in names)


def _images_of(
    listing: _Listing, classes: tuple[str, ...], channels: int, fingerprint: str
) -> Images:
    import numpy as np

    files, root = listing.files, listing.root
    labels = {label: number for number, label in enumerate(classes)}

    def read(position: int) -> Image.Image:
        return open_image(root / files[position].path)

    return Images(
        title=listing.title,
        classes=classes,
        labels_N=np.array([labels[file.label] for file in files], np.int64),
        splits_N=np.array([SPLITS.index(file.split) for file in files], np.uint8),
        read=read,
        name_of=lambda position: str(root / files[position].path),
        channels=channels,
        own_size=listing.own_size(),
        fingerprint=fingerprint,
        in_threads=True,
    )


SOURCE = Source("folder:PATH", outline, find, lists=True)


def _list(place: str) -> _Listing:
    """Every image file. Raises FaultsError where a classifier cannot be trained with these."""
    root = Path(place).expanduser()
    if not root.is_dir():
        raise fault(_missing(root), place)
    others: Counter[str] = Counter()
    try:
        splits = _split_folders(root)
        files = tuple(_files(root, splits, others))
    except OSError as error:
        raise fault(f"cannot be read: {reason_of(error)}", place) from error
    listing = _Listing(root, files, others, depth=1 if splits[0][1] == root else 2)
    strange = sorted({file.label for file in files} - {*listing.classes})
    if strange:
        rule = f"has classes without a training image: {', '.join(strange)}"
        raise fault(rule, place, listing.classes)
    if len(listing.classes) == 1 and len(_folders(splits[0][1] / listing.classes[0])) > 1:
        rule = f"has one class, {listing.classes[0]}; if the folders in it are the classes, name it"
        raise fault(rule, place)
    check_sizes(listing.classes, listing.counts(), place)
    return listing


def _list_all(place: str, classes: tuple[str, ...]) -> _Listing:
    """The image files to measure. Raises FaultsError."""
    root = Path(place).expanduser()
    if not root.is_dir():
        raise fault(_missing(root), place)
    others: Counter[str] = Counter()
    try:
        folder = _test_folder(root, classes)
        strange = [name for name in _folders(folder) if name not in classes]
        if strange:
            unknown, known = some_of(strange, _KNOWN), some_of(classes, _KNOWN)
            raise fault(f"it has classes that the model does not know: {unknown}; it knows {known}")
        files = tuple(_files(root, [("train", folder)], others))
    except OSError as error:
        raise fault(f"cannot be read: {reason_of(error)}", place) from error
    if not files:
        raise fault(f"it needs a sub-folder of images for each class: {some_of(classes, _KNOWN)}")
    return _Listing(root, files, others, depth=1 if folder == root else 2)


def _test_folder(root: Path, classes: tuple[str, ...]) -> Path:
    """The `test` of a folder of splits, else the folder itself. Raises FaultsError."""
    names = _folders(root)
    if not names or {*names} <= {*classes} or None in map(split_of, names):
        return root
    tests = [name for name in names if split_of(name) == "test"]
    if len(tests) != 1:
        rule = "it has splits and not one `test` among them: name the folder of the one to measure"
        raise fault(rule, choices=tuple(names))
    return root / tests[0]


def _missing(root: Path) -> str:
    if root.exists():
        return "must be a folder, with a sub-folder of images for each class"
    beside = [path.name for path in root.parent.glob("*/")] if root.parent.is_dir() else []
    return f"no folder {root.absolute()}{did_you_mean(root.name, beside)}"


def _files(root: Path, splits: Sequence[tuple[str, Path]], others: Counter[str]) -> Iterator[_File]:
    """The images of all splits; `others` counts the files that are left out."""
    for split, folder in splits:
        if loose := _loose(folder):
            others[_LOOSE] += loose
        for label in _folders(folder):
            of_class: Counter[str] = Counter()
            found = [_image(root, split, label, path) for path in _images(folder / label, of_class)]
            if not found:
                raise fault(_without_images(label, of_class), str(root), SUFFIXES)
            others.update(of_class)
            yield from found


def _split_folders(root: Path) -> list[tuple[str, Path]]:
    """(split, folder): the folders of the splits, or the root where there are none."""
    names = _folders(root)
    splits = [split_of(name) for name in names]
    strange = [name for name, split in zip(names, splits, strict=True) if split is None]
    train = [name for name, split in zip(names, splits, strict=True) if split == "train"]
    if not names or (strange and not any(_folders(root / name) for name in train)):
        return [("train", root)]  # a class may be called as a split is
    if strange:
        rule = f"has `train` beside what is no split: {', '.join(strange)}"
        raise fault(rule, str(root), ("train", "val", "test"))
    if not train:
        raise fault(f"has no `train` beside {', '.join(names)}", str(root))
    if len(set(splits)) < len(splits):
        raise fault(f"has two folders of one split: {', '.join(names)}", str(root))
    return [(str(split), root / name) for name, split in zip(names, splits, strict=True)]


def _folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    for entry in found:
        _refuse_link(entry)
    return sorted(entry.name for entry in found)


def _images(folder: Path, others: Counter[str]) -> Iterator[os.DirEntry[str]]:
    """The image files in `folder` and below, by their names; `others` counts other files."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            _refuse_link(entry)
            yield from _images(Path(entry.path), others)
        elif _is_image(entry):
            yield entry
        else:
            others[Path(entry.name).suffix.lower() or "without a suffix"] += 1


def _loose(folder: Path) -> int:
    """How many images lie in `folder` itself, so that they are of no class."""
    with os.scandir(folder) as entries:
        return sum(_is_image(entry) and entry.is_file() for entry in entries)


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".")


def _refuse_link(entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        raise fault("has a symbolic link to a folder, which is not followed", entry.path)


def _image(root: Path, split: str, label: str, entry: os.DirEntry[str]) -> _File:
    if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root.resolve()):
        raise fault("has a symbolic link that leads out of the folder: copy the file", entry.path)
    state = entry.stat()
    path = Path(entry.path).relative_to(root).as_posix()
    return _File(split, label, path, state.st_size, state.st_mtime_ns)


def _without_images(label: str, others: Counter[str]) -> str:
    has = f", and its files end in {', '.join(sorted(others))}" if others else ", it is empty"
    return f"class {label!r} has no images{has}"
