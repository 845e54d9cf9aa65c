"""torchvision's data sets, played by a package of that name: what is asked, and what is told."""

import pytest

from tuner.errors import DataError
from tuner.spec.settings import FaultsError
from tuner.vision.sources.torchvision import find

PACKAGE = """
import numpy as np
from PIL import Image

__all__ = ["CIFAR100", "Flowers102", "SVHN", "FakeData", "VisionDataset", "Gone"]

class _Images:
    classes = ["x", "y"]

    def __init__(self, root, count):
        self.targets = [n % 2 for n in range(count)]
        (root / "asked").open("a").write(f"{count} ")

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, number):
        return Image.new("L", (28, 28), number), self.targets[number]

class CIFAR100(_Images):
    def __init__(self, root, train=True, transform=None, download=False):
        assert download
        super().__init__(root, 12 if train else 4)

class SVHN(_Images):
    def __init__(self, root, split="train", download=False):
        if split == "val":
            raise ValueError("Unknown value 'val' for argument split.")
        super().__init__(root, {"train": 10, "test": 6, "extra": 99}[split])

class Flowers102(_Images):
    def __init__(self, root, split="train", download=False):
        super().__init__(root, {"train": 8, "val": 4, "test": 2}[split])

class Gone:
    def __init__(self, root, split="train", download=False):
        raise RuntimeError("no route to the server")

class FakeData:
    def __init__(self, size): ...

def VisionDataset(): ...
"""


@pytest.fixture
def played(tmp_path, monkeypatch, forget):
    forget("torchvision")
    package = tmp_path / "packages/torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "datasets.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(package.parent)


@pytest.mark.parametrize(
    ("name", "train", "validation", "test"),
    [("CIFAR100", 12, 0, 4), ("SVHN", 10, 0, 6), ("Flowers102", 8, 4, 2)],
)
def test_find_takes_existing_splits(played, name, train, validation, test, tmp_path):
    images = find(name, tmp_path)
    assert images.splits_N.tolist() == [0] * train + [1] * validation + [2] * test
    assert images.classes == ("x", "y")
    assert (images.channels, images.own_size) == (1, 28)
    assert images.read(3).getpixel((0, 0)) == 3
    assert images.fingerprint == f"torchvision {name}"
    assert (tmp_path / "torchvision/asked").is_file()


def test_find_of_an_unknown_name_suggests_the_nearest(played, tmp_path):
    with pytest.raises(FaultsError) as error:
        find("CIFAR", tmp_path)
    [fault] = error.value.faults
    assert fault.choices == ("CIFAR100", "Flowers102", "Gone", "SVHN")


def test_find_reports_the_folder_of_a_failed_download(snapshot, played, tmp_path):
    with snapshot.raises(DataError):
        find("Gone", tmp_path)


def test_find_with_incompatible_torchvision_names_package(snapshot, played, tmp_path):
    broken = "raise RuntimeError('operator torchvision::nms does not exist')"
    (tmp_path / "packages/torchvision/__init__.py").write_text(broken)
    with snapshot.raises(DataError):
        find("CIFAR100", tmp_path)
