"""What ships is found by name, from the file that declares it."""

from pathlib import Path

import photos
import pytest
from fresh import ran

from tuner.spec.experiment import build_spec
from tuner.vision import datasets, sources
from tuner.vision.catalog import (
    DATASETS,
    SOURCES,
    DataChoice,
    describe,
    find_archive,
    find_decoded,
    load_dataset_info,
    may_download,
    pin_dataset,
    shorten_name,
)
from tuner.vision.sources._decoded import DecodedSet


def test_import_of_catalog_imports_nothing_heavy():
    heavy = {"torch", "numpy", "rich", "sklearn"}
    assert not heavy & ran("import tuner.vision.catalog").modules


@pytest.mark.parametrize(
    ("package", "names"),
    [
        (datasets, DATASETS.keys() - {"tiny"}),
        (sources, SOURCES.keys()),
    ],
)
def test_catalog_has_each_file_without_underscore(package, names):
    files = {path.stem for path in Path(package.__path__[0]).glob("[!_]*.py")}
    assert names == files
    assert len(files) >= 2


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("folder:/data/my photos/", "my-photos"),
        ("folder:/data/..", "images"),
        ("folder:/fotos/Käfer und Bäume", "Kafer-und-Baume"),
        ("hf:user/pets", "user-pets"),
        ("my_data.shapes:load", "my_data-shapes-load"),
        (f"hf:{'x' * 200}", "x" * 60),
    ],
)
def test_short_name_is_a_valid_folder_name(dataset, name):
    assert shorten_name(dataset) == name
    build_spec({"name": name, "search": {"space": {"lr": 0.1}}, "num_samples": 1})
    DecodedSet(f"{name}-0123456789ab").resolve_path(Path("data"))


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("hf:mnist", True),
        ("folder:photos", False),
        ("digits", False),
    ],
)
def test_only_sets_of_a_library_may_have_to_be_downloaded(dataset, expected):
    assert may_download(dataset) is expected


def test_pinned_keeps_shipped_data_sets():
    choice = DataChoice("digits", split_seed=3)
    assert pin_dataset(choice) == (choice, ())
    assert load_dataset_info(choice) is describe(choice) is DATASETS["digits"]
    assert find_archive("cifar10") is DATASETS["cifar10"].archive
    assert find_archive("folder:photos") is None
    assert find_archive("decoded:photos-1") == DecodedSet("photos-1")


def test_dataset_info_describes_a_folder_before_and_after_decoding(tmp_path):
    choice = DataChoice(
        f"folder:{photos.write(tmp_path / 'photos')}", str(tmp_path), 16
    )
    before = load_dataset_info(choice)
    assert (before.mean, before.content, before.class_counts) == ((), "", (10, 10, 10))
    assert not (tmp_path / "decoded").exists()
    assert find_decoded(choice) is None
    decoded, _ = pin_dataset(choice)
    after = load_dataset_info(decoded)
    assert find_decoded(choice) == decoded == pin_dataset(decoded)[0]
    for name in ("classes", "channels", "image_size", "train", "validation", "test"):
        assert getattr(before, name) == getattr(after, name)
    assert len(after.mean) == 3
    arrays = before.load(tmp_path, split_seed=0)
    assert len(arrays.splits["train"]) == before.train
