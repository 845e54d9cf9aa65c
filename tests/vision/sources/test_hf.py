"""Data sets of the hub, played by a package of that name: columns, splits, and errors."""

import pytest

from tuner.errors import DataError
from tuner.spec.settings import FaultsError
from tuner.vision.sources.hf import find

PACKAGE = """
from PIL import Image as Pillow


class Image: ...


class Value: ...


class ClassLabel:
    names = ["cat", "dog"]


class Split:
    def __init__(self, count, **features):
        self.features = features or {"pixels": Image(), "id": Value(), "kind": ClassLabel()}
        self.count, self._fingerprint = count, f"print {count}"

    def __getitem__(self, key):
        if key == "kind":
            return [n % 2 for n in range(self.count)]
        return {"pixels": Pillow.new("RGB", (20, 10), (key, 0, 0)), "id": 0, "kind": key % 2}


def load_dataset(name, cache_dir):
    if name == "gone/gone":
        raise ConnectionError("the hub does not answer")
    if name == "other/columns":
        return {"train": Split(8, text=Value(), kind=ClassLabel())}
    if name == "no/train":
        return {"unsupervised": Split(4)}
    return {"train": Split(10), "valid": Split(3), "extra": Split(5)}


def load_from_disk(path):
    return Split(12)
"""


@pytest.fixture
def played(tmp_path, monkeypatch, forget):
    package = tmp_path / "packages/datasets"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(package.parent)
    forget("datasets")


def test_find_takes_columns_by_their_types(played, tmp_path):
    images = find("user/pets", tmp_path)
    assert images.splits_N.tolist() == [0] * 10 + [1] * 3
    assert images.classes == ("cat", "dog")
    assert images.labels_N[:3].tolist() == [0, 1, 0]
    assert images.read(7).getpixel((0, 0)) == (7, 0, 0)
    assert images.read(11).getpixel((0, 0)) == (1, 0, 0)
    assert (images.channels, images.own_size) == (3, 10)
    assert "print 10" in images.fingerprint


def test_find_of_a_saved_folder_has_one_split(played, tmp_path):
    (tmp_path / "saved").mkdir()
    assert find(str(tmp_path / "saved"), tmp_path).splits_N.tolist() == [0] * 12


@pytest.mark.parametrize("name", ["gone/gone", "no/train", "other/columns"])
def test_find_rejects_unusable_data_sets(snapshot, played, tmp_path, name):
    with snapshot.raises(DataError, FaultsError):
        find(name, tmp_path)
