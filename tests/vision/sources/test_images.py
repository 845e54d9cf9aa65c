"""What sources share: names of splits, and a package that is missing."""

import pytest

from tuner.settings import FaultsError
from tuner.vision.sources._images import require, split_of


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train", "train"),
        ("val", "validation"),
        ("Valid", "validation"),
        ("validation", "validation"),
        ("TEST", "test"),
        ("daisy", None),
    ],
)
def test_the_split_of_a_name(name, split):
    assert split_of(name) == split


def test_a_missing_package_is_told_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_such_package").mkdir()  # a folder is none
    rule = r"needs a package: pip install -c constraints.txt 'tuner\[extra\]', got 'NAME'"
    with pytest.raises(FaultsError, match=rule):
        require("no_such_package", "extra", "NAME")
    require("numpy", "extra", "NAME")
