"""Splits of a user's own: disjoint, stratified, together all, and repeated by the seed."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tuner.spec.settings import FaultsError
from tuner.vision.sources._images import (
    SPLITS,
    check_sizes,
    complete_splits,
    counts_of,
    require,
    share_of,
    sizes,
    split_of,
)

K = 3
IMAGES = st.lists(
    st.tuples(st.integers(0, K - 1), st.sampled_from([0, 0, 0, 0, 1, 2])), min_size=8, max_size=120
)


@given(IMAGES, st.integers(0, 2**32))
def test_complete_splits_are_disjoint_and_cover_all(images, seed):
    labels, user_splits = np.array(images).T
    classes = ("a", "b", "c")
    counts = counts_of(labels, user_splits, classes)
    try:
        check_sizes(classes, counts, "here")
    except FaultsError:
        assume(False)
    splits = complete_splits(labels, user_splits.astype(np.uint8), seed=seed)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(len(labels)))
    assert {name: len(rows) for name, rows in splits.items()} == sizes(counts)
    assert set(labels[splits["train"]]) == set(range(K))
    for number, name in enumerate(SPLITS):
        chosen = np.flatnonzero(user_splits == number)
        if name != "train" and len(chosen):
            assert np.array_equal(splits[name], chosen)
    again = complete_splits(labels, user_splits.astype(np.uint8), seed=seed)
    assert all(np.array_equal(splits[name], again[name]) for name in SPLITS)


@given(st.lists(st.integers(20, 60), min_size=2, max_size=5), st.integers(0, 99))
def test_complete_splits_are_stratified_to_within_two_images(each, seed):
    labels = np.repeat(np.arange(len(each)), each)
    splits = complete_splits(labels, np.zeros(len(labels), np.uint8), seed=seed)
    for name in ("validation", "test"):
        share = share_of(len(labels)) / len(labels)
        counts = np.bincount(labels[splits[name]], minlength=len(each))
        assert np.all(np.abs(counts - share * np.array(each)) < 2)


@pytest.mark.parametrize(
    ("classes", "counts", "rule"),
    [
        (("a",), {"train": (9,)}, "at least two classes"),
        (("a", "b"), {"train": (9, 0)}, "training images of every class; without: b"),
        (("a", "b"), {"train": (2, 1)}, "at least 4 training images"),
        (("a", "b"), {"train": (1, 1), "test": (1, 0)}, "the validation split"),
    ],
)
def test_check_sizes_rejects_too_few_images(classes, counts, rule):
    with pytest.raises(FaultsError, match=rule):
        check_sizes(classes, counts, "here")


@pytest.mark.parametrize(
    ("names", "split"),
    [
        (("train", "Training"), "train"),
        (("val", "Valid", "validation"), "validation"),
        (("TEST",), "test"),
        (("daisy",), None),
    ],
)
def test_split_of_knows_common_names(names, split):
    assert {split_of(name) for name in names} == {split}


def test_require_of_missing_package_names_extra(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_such_package").mkdir()  # a folder is none
    rule = r"needs a package: pip install -c constraints.txt 'tuner\[extra\]', got 'NAME'"
    with pytest.raises(FaultsError, match=rule):
        require("no_such_package", "extra", "NAME")
    require("numpy", "extra", "NAME")
