"""Splits of a user's own: disjoint, stratified, together all, and repeated by the seed."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tuner.settings import FaultsError
from tuner.vision.sources._images import (
    SPLITS,
    check_sizes,
    complete_splits,
    require,
    share_of,
    sizes,
    split_of,
)

K = 3
IMAGES = st.lists(
    st.tuples(st.integers(0, K - 1), st.sampled_from([0, 0, 0, 0, 1, 2])), min_size=8, max_size=120
)


def counts_of(labels, given_splits):
    return {
        name: tuple(np.bincount(labels[given_splits == number], minlength=K).tolist())
        for number, name in enumerate(SPLITS)
    }


@given(IMAGES, st.integers(0, 2**32))
def test_splits_are_disjoint_stratified_and_cover_all(images, seed):
    labels, given_splits = np.array(images).T
    counts = counts_of(labels, given_splits)
    try:
        check_sizes(("a", "b", "c"), counts, "here")
    except FaultsError:
        assume(False)
    splits = complete_splits(labels, given_splits.astype(np.uint8), seed=seed)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(len(labels)))
    assert {name: len(rows) for name, rows in splits.items()} == sizes(counts)
    assert set(labels[splits["train"]]) == set(range(K))
    for number, name in enumerate(SPLITS):
        chosen = np.flatnonzero(given_splits == number)
        if name != "train" and len(chosen):
            assert np.array_equal(splits[name], chosen)
    again = complete_splits(labels, given_splits.astype(np.uint8), seed=seed)
    assert all(np.array_equal(splits[name], again[name]) for name in SPLITS)


@given(st.lists(st.integers(20, 60), min_size=2, max_size=5), st.integers(0, 99))
def test_each_class_has_its_share_to_within_two_images(each, seed):
    labels = np.repeat(np.arange(len(each)), each)
    splits = complete_splits(labels, np.zeros(len(labels), np.uint8), seed=seed)
    for name in ("validation", "test"):
        share = share_of(len(labels)) / len(labels)
        found = np.bincount(labels[splits[name]], minlength=len(each))
        assert np.all(np.abs(found - share * np.array(each)) < 2)


def test_another_seed_splits_otherwise():
    labels, none_given = np.arange(90) % 3, np.zeros(90, np.uint8)
    first, second = (complete_splits(labels, none_given, seed=seed) for seed in (0, 1))
    assert not np.array_equal(first["test"], second["test"])


@pytest.mark.parametrize(
    ("classes", "counts", "told"),
    [
        (("a",), {"train": (9,)}, "must have at least two classes, and has a"),
        ((), {"train": ()}, "must have at least two classes, and has none"),
        (("a", "b"), {"train": (9, 0)}, "must have training images of every class; without: b"),
        (("a", "b"), {"train": (2, 1)}, "must have at least 4 training images for 2 classes and"),
        (("a", "b"), {"train": (1, 1), "test": (1, 0)}, "the validation split"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(classes, counts, told):
    with pytest.raises(FaultsError, match=told):
        check_sizes(classes, counts, "here")


def test_what_is_given_is_enough():
    one_each = {"train": (1, 1), "validation": (1, 0), "test": (0, 1)}
    check_sizes(("a", "b"), one_each, "here")
    assert sizes(one_each) == {"train": 2, "validation": 1, "test": 1}


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
