"""`folder:PATH`: a folder with one sub-folder of image files for each class.

    photos/daisy/*.jpg                 or   photos/train/daisy/*.jpg
    photos/rose/2024/*.png                  photos/val/daisy/*.jpg      valid, validation
                                            photos/test/daisy/*.jpg

Files are listed, not opened; decoding reports those that Pillow cannot read. Names that begin with
a dot and __MACOSX are ignored, and so are other files, with a warning. Links are followed.
"""

# N images, K classes

from __future__ import annotations

import hashlib
import logging
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.errors import suggest_similar, translate_error
from tuner.spec.settings import bad_value
from tuner.vision.sources._images import (
    LARGEST_SIZE,
    SPLITS,
    Images,
    Source,
    check_sizes,
    count_images,
    parse_split,
    sample_positions,
)
from tuner.vision.sources._pixels import measure_shorter_side
from tuner.wording import format_amount, summarize_names

SUFFIXES = (
    *(".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm"),
    *(".tif", ".tiff", ".webp"),
)
CHANNELS = 3  # as networks expect photographs; a grey image has three equal ones

_log = logging.getLogger(__name__)

_OF_A_ZIP = "__MACOSX"  # beside the folders of an archive that a Mac has made
_NOT_READ = (".heic", ".heif", ".avif")  # photos of phones
_KINDS = 3  # kinds of ignored files that a message lists
_KNOWN = 10  # classes that a message lists

Splits = Sequence[tuple[str, Path]]


@dataclass(frozen=True, slots=True)
class _File:
    """An image: its split, its class, its path, and its size and time."""

    split: str
    label: str
    path: Path
    size: int
    changed_ns: int


def find(location: str, folder: Path) -> Images:
    """The images of a folder that a classifier can be trained with. Raises FaultsError."""
    root, files, others = _list(location, _find_splits)
    # By name: the first has label 0, as with torchvision's ImageFolder
    classes = tuple(sorted({file.label for file in files if file.split == "train"}))
    if strange := sorted({file.label for file in files} - {*classes}):
        rule = f"has classes without a training image: {', '.join(strange)}"
        raise bad_value(rule, location, classes)
    images = _build_images(root, files, others, classes, CHANNELS)
    check_sizes(
        classes, count_images(images.labels_N, images.splits_N, classes), location
    )
    return images


def find_all(location: str, classes: tuple[str, ...], channels: int) -> Images:
    """Every image of a folder, or of its `test`, for a model of `classes`. Raises FaultsError."""
    root, files, others = _list(
        location, lambda root: [("train", _test_folder(root, classes))]
    )
    if not files:
        raise bad_value(
            f"it needs a sub-folder of images for each class: {summarize_names(classes, _KNOWN)}"
        )
    images = _build_images(root, files, others, classes, channels)
    for doubt in images.doubts:
        _log.warning(doubt)
    return replace(
        images, fingerprint=f"all of {[images.fingerprint, classes, channels]}"
    )


def _build_images(
    root: Path,
    files: list[_File],
    others: Counter[str],
    classes: tuple[str, ...],
    channels: int,
) -> Images:
    import numpy as np
    from PIL import Image

    labels = {label: number for number, label in enumerate(classes)}
    digest = hashlib.sha256()
    sides = []
    doubts = []
    for file in files:
        path = file.path.relative_to(root).as_posix()
        digest.update(repr((path, file.size, file.changed_ns)).encode())
    for position in sample_positions(len(files)):
        with suppress(Exception), Image.open(files[position].path) as image:
            # Decoding reports what cannot be read
            sides.append(measure_shorter_side(image))
    if others:
        kinds = [f"{count:,} {kind}" for kind, count in others.most_common(_KINDS)]
        more = ", ..." if len(others) > _KINDS else ""
        count = format_amount(others.total(), "file")
        doubts = [f"{count} in {root} left out: {', '.join(kinds)}{more}"]
    return Images(
        title=f"{root.resolve().name}, a folder of images",
        classes=classes,
        labels_N=np.array([labels[file.label] for file in files], np.int64),
        splits_N=np.array([SPLITS.index(file.split) for file in files], np.uint8),
        read=lambda position: Image.open(files[position].path),
        name_of=lambda position: str(files[position].path),
        channels=channels,
        own_size=int(statistics.median(sides)) if sides else LARGEST_SIZE,
        fingerprint=digest.hexdigest(),
        in_threads=True,
        root=f"{root}{os.sep}",
        doubts=tuple(doubts),
    )


def is_labelled(folder: Path, classes: tuple[str, ...]) -> bool:
    """Whether `folder` has a sub-folder for one of the classes, or a `test`."""
    names = _list_folders(folder) if folder.is_dir() else []
    return any(name in classes or parse_split(name) == "test" for name in names)


SOURCE = Source("folder:PATH", find)


def _list(
    location: str, splits_of: Callable[[Path], Splits]
) -> tuple[Path, list[_File], Counter[str]]:
    """(the folder at `location`, its images, the number of other files by suffix); FaultsError."""
    root = Path(location).expanduser()
    if root.exists() and not root.is_dir():
        raise bad_value(
            "must be a folder, with a sub-folder of images for each class", location
        )
    if not root.exists():
        beside = (
            [path.name for path in root.parent.glob("*/")]
            if root.parent.is_dir()
            else []
        )
        hint = suggest_similar(root.name, beside)
        raise bad_value(f"no folder {root.absolute()}{hint}", location)
    others: Counter[str] = Counter()
    with translate_error(
        lambda rule: bad_value(rule, location), "cannot be read", of=OSError
    ):
        _check_names(root)
        return root, list(_list_files(splits_of(root), others)), others


def _check_names(root: Path) -> None:
    """Refuse images that lie beside each other, and folders whose names look the same."""
    folders = _list_folders(root)
    if not folders:
        images = sum(
            entry.name.lower().endswith(SUFFIXES) for entry in _list_entries(root)
        )
        if images:
            count = format_amount(images, "image")
            raise bad_value(
                f"has {count}, and no sub-folder for each class: sort them into such"
            )
    shown: dict[str, str] = {}
    for name in folders:
        plain = " ".join(name.split())
        if plain in shown:
            rule = f"has two classes that look the same: {shown[plain]!r} and {name!r}"
            raise bad_value(rule, str(root))
        shown[plain] = name


def _test_folder(root: Path, classes: tuple[str, ...]) -> Path:
    """The `test` of a folder of splits, else the folder itself. Raises FaultsError."""
    names = _list_folders(root)
    if names and not {*names} <= {*classes} and None not in map(parse_split, names):
        tests = [name for name in names if parse_split(name) == "test"]
        if len(tests) != 1:
            rule = "it has splits and not one `test` among them: name the folder to measure"
            raise bad_value(rule, choices=tuple(names))
        root = root / tests[0]
    if strange := [name for name in _list_folders(root) if name not in classes]:
        unknown = summarize_names(strange, _KNOWN)
        known = summarize_names(classes, _KNOWN)
        raise bad_value(
            f"it has classes that the model does not know: {unknown}; it knows {known}"
        )
    return root


def _find_splits(root: Path) -> Splits:
    """(split, folder) of each split, or the root as training split. Raises FaultsError."""
    splits = {name: parse_split(name) for name in _list_folders(root)}
    names = ", ".join(splits)
    train = [name for name, split in splits.items() if split == "train"]
    strange = [name for name, split in splits.items() if split is None]
    if not splits or (
        strange and not any(_list_folders(root / name) for name in train)
    ):
        return [("train", root)]  # a class may be called as a split is
    if strange:
        rule = f"has `train` beside what is no split: {', '.join(strange)}"
        raise bad_value(rule, str(root), ("train", "val", "test"))
    if not train:
        raise bad_value(f"has no `train` beside {names}", str(root))
    if len({*splits.values()}) < len(splits):
        raise bad_value(f"has two folders of one split: {names}", str(root))
    return [(str(split), root / name) for name, split in splits.items()]


def _list_files(splits: Splits, others: Counter[str]) -> Iterator[_File]:
    """The images of all splits; `others` counts the ignored files."""
    for split, folder in splits:
        for label in _list_folders(folder):
            before = others.copy()
            entries = [*_walk_images(folder / label, others)]
            if not entries:
                hint = _suggest_conversion(others - before)
                raise bad_value(
                    f"class {label!r} has no images{hint}", str(folder), SUFFIXES
                )
            for entry in entries:
                state = entry.stat()
                yield _File(
                    split, label, Path(entry.path), state.st_size, state.st_mtime_ns
                )


def _suggest_conversion(others: Counter[str]) -> str:
    """What to do with photos of a format that is not read, or ""."""
    kinds = [f"{count:,} {kind}" for kind, count in others.items() if kind in _NOT_READ]
    return f" but {' and '.join(kinds)}: convert them to .jpg" if kinds else ""


def _list_folders(folder: Path) -> list[str]:
    return [entry.name for entry in _list_entries(folder) if entry.is_dir()]


def _walk_images(folder: Path, others: Counter[str]) -> Iterator[os.DirEntry[str]]:
    """The image files in `folder` and below, by their names; `others` counts other files."""
    for entry in _list_entries(folder):
        if entry.is_dir():
            yield from _walk_images(Path(entry.path), others)
        elif entry.is_file() and entry.name.lower().endswith(SUFFIXES):
            yield entry
        else:
            others[Path(entry.name).suffix.lower() or "without a suffix"] += 1


def _list_entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in `folder`, by its name, except names that begin with a dot."""
    with os.scandir(folder) as entries:
        shown = (
            entry
            for entry in entries
            if entry.name[0] != "." and entry.name != _OF_A_ZIP
        )
        return sorted(shown, key=lambda entry: entry.name)
