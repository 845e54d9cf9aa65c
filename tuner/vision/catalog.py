"""The data sets that ship, by name, and those of the user: `SCHEME:LOCATION` or `my_module:load`.

Nothing here imports torch, so that a spec is checked in milliseconds.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tuner.errors import (
    DataError,
    UsageError,
    build_unknown_fault,
    translate_error,
)
from tuner.spec.loading import collect_declarations
from tuner.spec.settings import FaultsError
from tuner.vision import datasets, sources
from tuner.vision.datasets._archive import Archive
from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays, resolve_data_folder
from tuner.vision.sources import _module
from tuner.vision.sources import folder as folders
from tuner.vision.sources._decoded import (
    STORE,
    DecodedSet,
    Decoding,
    decode,
    describe_user_images,
    find_decoded_folder,
    list_own_splits,
)
from tuner.vision.sources._images import (
    Images,
    Source,
    compute_split_sizes,
    count_images,
)

DECODED = "decoded"  # the scheme of what has been decoded already


DATASETS: dict[str, DatasetInfo] = collect_declarations(datasets, "DATASET")
SOURCES: dict[str, Source] = collect_declarations(sources, "SOURCE")


@dataclass(frozen=True, slots=True)
class DataChoice:
    """The settings that choose a data set, without all others; they mean the same."""

    dataset: str = "digits"
    data_dir: str | None = None
    image_size: int | None = None
    split_seed: int = 0
    image_bits: int | None = None
    skip_unreadable: bool = False


def is_shipped(dataset: str) -> bool:
    """Whether a data set ships, and is not a user's."""
    return dataset in DATASETS


def is_at_hand(dataset: str) -> bool:
    """Whether its description needs none of the user's files: it ships, or is decoded."""
    return is_shipped(dataset) or parse_decoded(dataset) is not None


def parse_decoded(dataset: str) -> DecodedSet | None:
    """The decoded set that a data set names, or None."""
    scheme, _, name = dataset.partition(":")
    return DecodedSet(name) if scheme == DECODED else None


def may_download(dataset: str) -> bool:
    """Whether a library may have to download its images."""
    scheme = dataset.partition(":")[0]
    return scheme in SOURCES and SOURCES[scheme].require is not None


def is_dotted(dataset: str) -> bool:
    """Whether a data set is a user's function, `module:name`, and no location of a scheme."""
    module, colon, name = dataset.partition(":")
    parts = (*module.split("."), *name.split("."))
    return (
        bool(colon)
        and all(map(str.isidentifier, parts))
        and module not in (*SOURCES, DECODED)
    )


def check_dataset(dataset: str) -> str:
    """The name itself. Raises FaultsError for one that is no data set on any machine."""
    scheme, _, location = dataset.partition(":")
    is_located = bool(location) and scheme in (*SOURCES, DECODED)
    if not (is_shipped(dataset) or is_located or is_dotted(dataset)):
        forms = [source.form for source in (*SOURCES.values(), _module.SOURCE)]
        raise FaultsError(
            build_unknown_fault("", "dataset", dataset, (*DATASETS, *forms))
        )
    return dataset


def describe(choice: DataChoice) -> DatasetInfo | None:
    """The description of a data set without torch and without decoding it, or None.

    Imports a user's module. Raises FaultsError if the data set is not available here, and DataError
    for a damaged decoded set.
    """
    if is_shipped(choice.dataset):
        return DATASETS[choice.dataset]
    if decoded := parse_decoded(choice.dataset):
        return _read_info(decoded, choice)
    source, location = _find_source(choice.dataset)
    if source.require is not None:
        source.require(location)
        return None
    images, _ = _find_images(choice)
    counts = count_images(images.labels_N, images.splits_N, images.classes)

    def load(folder: Path, *, split_seed: int) -> ImageArrays:
        return _read_info(ensure_decoded(choice), choice).load(
            folder, split_seed=split_seed
        )

    return describe_user_images(
        load,
        compute_split_sizes(counts),
        channels=images.channels,
        image_size=choice.image_size or images.size,
        classes=images.classes,
        title=images.title,
        class_counts=tuple(map(sum, zip(*counts.values(), strict=True))),
        own_splits=list_own_splits(images.splits_N),
    )


def find_archive(dataset: str) -> Archive | DecodedSet | None:
    """What is sent of a data set from machine to machine, or None."""
    return DATASETS[dataset].archive if is_shipped(dataset) else parse_decoded(dataset)


def load_dataset_info(choice: DataChoice) -> DatasetInfo:
    """The chosen data set: its shape, its classes, its splits.

    A user's images are decoded only if nothing else describes them. Raises DataError if they are
    not available.
    """
    with translate_error(DataError, f"dataset {choice.dataset!r}", of=FaultsError):
        described = describe(choice)
    return described or _read_info(ensure_decoded(choice), choice)


def extract_data_choice(values: Mapping[str, Any]) -> DataChoice:
    """The choice of raw settings, with defaults for missing ones."""
    names = [f.name for f in fields(DataChoice) if values.get(f.name) is not None]
    return DataChoice(**{name: values[name] for name in names})


def pin_dataset(choice: DataChoice) -> tuple[DataChoice, tuple[str, ...]]:
    """The same data set by its decoded form, which later changes of the files leave alone.

    The second item has warnings about the layout of the files. A data set that ships is returned
    as it is. Raises DataError if the data set is not available.
    """
    if is_shipped(choice.dataset):
        return DataChoice(
            choice.dataset, choice.data_dir, choice.image_size, choice.split_seed
        ), ()
    decoded, doubts = _decode_with_doubts(choice)
    name = f"{DECODED}:{decoded.name}"
    return DataChoice(name, choice.data_dir, None, choice.split_seed), doubts


def list_image_names(choice: DataChoice) -> list[str]:
    """The names of a user's images by row, of files their paths; none of a data set that ships.

    Raises DataError if the data set is not available.
    """
    if is_shipped(choice.dataset):
        return []
    names = ensure_decoded(choice).read_names(resolve_data_folder(choice.data_dir))
    scheme, _, location = choice.dataset.partition(":")
    return resolve_paths(location, names) if scheme == "folder" else names


def resolve_paths(folder: str, names: Iterable[str]) -> list[str]:
    """The absolute paths of files in `folder`."""
    root = os.path.abspath(Path(folder).expanduser())
    return [os.path.join(root, name) for name in names]


def ensure_decoded(choice: DataChoice) -> DecodedSet:
    """The decoded form of a user's data set, decoded now if it is missing. Raises DataError."""
    return _decode_with_doubts(choice)[0]


def _decode_with_doubts(choice: DataChoice) -> tuple[DecodedSet, tuple[str, ...]]:
    """The decoded set and the doubts of `pin_dataset`. Raises DataError."""
    if decoded := parse_decoded(choice.dataset):
        return decoded, ()
    with translate_error(
        DataError, f"dataset {choice.dataset!r}", of=(FaultsError, OSError)
    ):
        images, target = _find_images(choice)
        return DecodedSet(decode(images, **target).name), images.doubts


def decode_folder(
    folder: str, classes: tuple[str, ...], *, channels: int, how: Decoding
) -> DecodedSet:
    """Every image of `folder`, or of its `test`, decoded. Raises UsageError and DataError."""
    what = f"cannot measure {folder}"
    with (
        translate_error(UsageError, what, of=FaultsError),
        translate_error(DataError, what, of=OSError),
    ):
        images = folders.find_all(folder, classes, channels)
        store = resolve_data_folder(None) / STORE
        name = shorten_name(f"folder:{folder}")
        return DecodedSet(decode(images, how, store=store, name=name).name)


def wait_for_copy(values: Mapping[str, Any]) -> None:
    """If raw settings name a decoded set, wait until it has arrived on this node."""
    if decoded := parse_decoded(str(values.get("dataset"))):
        decoded.wait_for_arrival(resolve_data_folder(values.get("data_dir")))


def find_decoded(choice: DataChoice) -> DataChoice | None:
    """The same data set by its decoded form, or None if that is missing or unknown.

    Downloads nothing, and calls no user's function. Raises FaultsError if the data set is not
    available.
    """
    if _find_source(choice.dataset)[0].require is not None:
        return None
    images, target = _find_images(choice)
    path = find_decoded_folder(images, **target)
    if path is None or not path.is_dir():
        return None
    return DataChoice(
        f"{DECODED}:{path.name}", choice.data_dir, None, choice.split_seed
    )


def shorten_name(dataset: str) -> str:
    """The name of a user's data set, as part of the name of a folder."""
    scheme, _, location = dataset.partition(":")
    if scheme == "folder":
        location = Path(location).expanduser().resolve().name
    elif scheme not in SOURCES:
        location = dataset
    # Of ü the u
    letters = "".join(filter(str.isascii, unicodedata.normalize("NFKD", location)))
    words = re.findall(r"[A-Za-z0-9_-]+", letters)
    return "-".join(words)[-60:].strip("-_") or "images"


def _find_source(dataset: str) -> tuple[Source, str]:
    """The source of a user's images, and their location for it."""
    scheme, _, location = dataset.partition(":")
    return (
        (SOURCES[scheme], location) if scheme in SOURCES else (_module.SOURCE, dataset)
    )


def _read_info(decoded: DecodedSet, choice: DataChoice) -> DatasetInfo:
    return decoded.read_info(
        resolve_data_folder(choice.data_dir), split_seed=choice.split_seed
    )


def replace_data_dir(values: Mapping[str, Any], data_dir: str) -> dict[str, Any]:
    """Settings with their data in `data_dir`: the folder of a `folder:PATH`, else of all data."""
    if str(values.get("dataset")).startswith("folder:"):
        return {**values, "dataset": f"folder:{data_dir}"}
    return {**values, "data_dir": data_dir}


def _find_images(choice: DataChoice) -> tuple[Images, dict[str, Any]]:
    """(a user's images, the further arguments of `decode`)."""
    source, location = _find_source(choice.dataset)
    folder = resolve_data_folder(choice.data_dir)
    images = source.find(location, folder)
    how = Decoding(
        choice.image_size or images.size, choice.image_bits, choice.skip_unreadable
    )
    return images, {
        "how": how,
        "store": folder / STORE,
        "name": shorten_name(choice.dataset),
    }
