"""`folder:PATH`: a folder with one sub-folder of image files for each class.

    photos/daisy/*.jpg                 or   photos/train/daisy/*.jpg
    photos/rose/2024/*.png                  photos/val/daisy/*.jpg      valid, validation
                                            photos/test/daisy/*.jpg

Files are listed, not opened; decoding reports those that Pillow cannot read. Names that begin with
a dot are ignored, and so are other files, with a warning. A link is followed only to a file within
the folder.
"""

# N images, K classes

from __future__ import annotations

import hashlib
import logging
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
_KINDS = 3  # kinds of ignored files that a message lists
_KNOWN = 10  # classes that a message lists


@dataclass(frozen=True, slots=True)
class _File:
    """An image: its split, its class, its path in the folder, and its size and time."""

    split: str
    label: str
    path: str
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class _Listing:
    """others: the number of ignored files of each kind. depth: of the folders of classes."""

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
        counts = Counter((file.split, file.label) for file in self.files)
        classes = self.classes
        return {split: tuple(counts[split, label] for label in classes) for split in SPLITS}

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(repr((file.path, file.size, file.changed_ns)).encode())
        return digest.hexdigest()

    def doubts(self) -> Iterator[str]:
        """Warnings about what may not be meant."""
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
                except Exception:  # decoding reports it
                    continue
        return int(statistics.median(sides)) if sides else LARGEST_SIZE

    def images(self, classes: tuple[str, ...], channels: int, fingerprint: str) -> Images:
        import numpy as np

        paths = [self.root / file.path for file in self.files]
        labels = {label: number for number, label in enumerate(classes)}

        def read(position: int) -> Image.Image:
            return open_image(paths[position])

        return Images(
            title=self.title,
            classes=classes,
            labels_N=np.array([labels[file.label] for file in self.files], np.int64),
            splits_N=np.array([SPLITS.index(file.split) for file in self.files], np.uint8),
            read=read,
            name_of=lambda position: str(paths[position]),
            channels=channels,
            own_size=self.own_size(),
            fingerprint=fingerprint,
            in_threads=True,
        )


def outline(place: str) -> Outline:
    """The classes and counts of the folder at `place`. Raises FaultsError."""
    listing = _to_train(place)
    return Outline(
        listing.classes,
        listing.counts(),
        CHANNELS,
        min(listing.own_size(), LARGEST_SIZE),
        listing.title,
        doubts=tuple(listing.doubts()),
    )


def find(place: str, folder: Path) -> Images:
    """The images of the folder at `place`; the data folder is not used. Raises FaultsError."""
    listing = _to_train(place)
    return listing.images(listing.classes, CHANNELS, listing.fingerprint())


def find_all(place: str, classes: tuple[str, ...], channels: int) -> Images:
    """Every image of the folder at `place`, or of its `test`, for a model of these `classes`.

    The folder may lack some of the classes. Raises FaultsError.
    """
    listing = _list(place, lambda root: [("train", _test_folder(root, classes))])
    if not listing.files:
        raise fault(f"it needs a sub-folder of images for each class: {some_of(classes, _KNOWN)}")
    for doubt in listing.doubts():
        _log.warning(doubt)
    made_from = [listing.fingerprint(), classes, channels]
    return listing.images(classes, channels, f"all of {made_from}")


def is_labelled(folder: Path, classes: tuple[str, ...]) -> bool:
    """Whether `folder` has a sub-folder for one of the classes, or a `test`."""
    names = _folders(folder) if folder.is_dir() else []
    return any(name in classes or split_of(name) == "test" for name in names)


SOURCE = Source("folder:PATH", outline, find, lists=True)


def _list(place: str, folders: Callable[[Path], Sequence[tuple[str, Path]]]) -> _Listing:
    """Every image file in the `folders` of the root, each with its split. Raises FaultsError."""
    root = Path(place).expanduser()
    if root.exists() and not root.is_dir():
        raise fault("must be a folder, with a sub-folder of images for each class", place)
    if not root.exists():
        beside = [path.name for path in root.parent.glob("*/")] if root.parent.is_dir() else []
        raise fault(f"no folder {root.absolute()}{did_you_mean(root.name, beside)}", place)
    others: Counter[str] = Counter()
    try:
        splits = folders(root)
        files = tuple(_files(root, splits, others))
    except OSError as error:
        raise fault(f"cannot be read: {reason_of(error)}", place) from error
    return _Listing(root, files, others, depth=1 if splits[0][1] == root else 2)


def _to_train(place: str) -> _Listing:
    """Raises FaultsError where a classifier cannot be trained with the images."""
    listing = _list(place, _split_folders)
    classes = listing.classes
    strange = sorted({file.label for file in listing.files} - {*classes})
    if strange:
        rule = f"has classes without a training image: {', '.join(strange)}"
        raise fault(rule, place, classes)
    if len(classes) == 1:
        path = next(file.path for file in listing.files if file.split == "train")
        if len(_folders(listing.root.joinpath(*Path(path).parts[: listing.depth]))) > 1:
            rule = f"has one class, {classes[0]}; if the folders in it are the classes, name it"
            raise fault(rule, place)
    check_sizes(classes, listing.counts(), place)
    return listing


def _test_folder(root: Path, classes: tuple[str, ...]) -> Path:
    """The `test` of a folder of splits, else the folder itself. Raises FaultsError."""
    names = _folders(root)
    if names and not {*names} <= {*classes} and None not in map(split_of, names):
        tests = [name for name in names if split_of(name) == "test"]
        if len(tests) != 1:
            rule = "it has splits and not one `test` among them: name the folder to measure"
            raise fault(rule, choices=tuple(names))
        root = root / tests[0]
    strange = [name for name in _folders(root) if name not in classes]
    if strange:
        unknown, known = some_of(strange, _KNOWN), some_of(classes, _KNOWN)
        raise fault(f"it has classes that the model does not know: {unknown}; it knows {known}")
    return root


def _files(root: Path, splits: Sequence[tuple[str, Path]], others: Counter[str]) -> Iterator[_File]:
    """The images of all splits; `others` counts the ignored files."""
    for split, folder in splits:
        with os.scandir(folder) as entries:
            loose = sum(_is_image(entry) and entry.is_file() for entry in entries)
        if loose:
            others[_LOOSE] += loose
        for label in _folders(folder):
            of_class: Counter[str] = Counter()
            files = [_file(root, split, label, e) for e in _entries(folder / label, of_class)]
            if not files:
                suffixes = ", ".join(sorted(of_class))
                has = f"and its files end in {suffixes}" if of_class else "it is empty"
                raise fault(f"class {label!r} has no images, {has}", str(root), SUFFIXES)
            others.update(of_class)
            yield from files


def _split_folders(root: Path) -> list[tuple[str, Path]]:
    """(split, folder) of each split, or the root as training split. Raises FaultsError."""
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
        folders = [entry for entry in entries if entry.is_dir() and entry.name[0] != "."]
    for entry in folders:
        _refuse_link(entry)
    return sorted(entry.name for entry in folders)


def _entries(folder: Path, others: Counter[str]) -> Iterator[os.DirEntry[str]]:
    """The image files in `folder` and below, by their names; `others` counts other files."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            _refuse_link(entry)
            yield from _entries(Path(entry.path), others)
        elif _is_image(entry):
            yield entry
        else:
            others[Path(entry.name).suffix.lower() or "without a suffix"] += 1


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(".")


def _refuse_link(entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        raise fault("has a symbolic link to a folder, which is not followed", entry.path)


def _file(root: Path, split: str, label: str, entry: os.DirEntry[str]) -> _File:
    if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root.resolve()):
        raise fault("has a symbolic link that leads out of the folder: copy the file", entry.path)
    state = entry.stat()
    path = Path(entry.path).relative_to(root).as_posix()
    return _File(split, label, path, state.st_size, state.st_mtime_ns)
