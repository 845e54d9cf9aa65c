"""Splits of a user's own: disjoint, stratified, together all, repeated; images become squares."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tuner.errors import DataError
from tuner.spec.settings import FaultsError
from tuner.vision.datasets._dataset import (
    assign_folds,
    assign_group_folds,
    sample_groups,
    sample_stratified,
)
from tuner.vision.sources._images import (
    SPLITS,
    check_package,
    check_sizes,
    complete_splits,
    compute_split_sizes,
    count_held_out,
    count_images,
)

K = 3
IMAGES = st.lists(
    st.tuples(st.integers(0, K - 1), st.sampled_from([0, 0, 0, 0, 1, 2])),
    min_size=8,
    max_size=120,
)


def check_partition(splits, count):
    """Each row is in one split."""
    assert sorted(np.concatenate([*splits.values()])) == [*range(count)]


@given(IMAGES, st.integers(0, 2**32))
def test_complete_splits_are_disjoint_and_cover_all(images, seed):
    labels, user_splits = np.array(images, np.uint8).T
    classes = ("a", "b", "c")
    counts = count_images(labels, user_splits, classes)
    try:
        check_sizes(classes, counts, "here")
    except FaultsError:
        assume(False)
    splits = complete_splits(labels, user_splits, seed=seed)
    check_partition(splits, len(labels))
    sizes = {name: len(rows) for name, rows in splits.items()}
    assert sizes == compute_split_sizes(counts)
    assert set(labels[splits["train"]]) == set(range(K))
    for number, name in enumerate(SPLITS):
        chosen = np.flatnonzero(user_splits == number)
        if name != "train" and len(chosen):
            assert np.array_equal(splits[name], chosen)
    again = complete_splits(labels, user_splits, seed=seed)
    assert all(map(np.array_equal, splits.values(), again.values()))


@given(
    st.lists(st.integers(0, 40), min_size=60, max_size=90),
    st.integers(0, 2**32),
    st.integers(2, 5),
)
def test_splits_and_folds_keep_copies_together(groups, seed, folds):
    groups = np.array(groups)
    labels = groups % 3  # copies have the same label here
    assume(set(labels) == {0, 1, 2})
    splits_N = np.zeros(len(labels), np.uint8)
    try:
        splits = complete_splits(labels, splits_N, seed=seed, groups_N=groups)
    except DataError:
        assume(False)
    check_partition(splits, len(labels))
    held = [set(groups[rows]) for rows in splits.values()]
    assert sum(map(len, held)) == len(set(groups))
    assert all(len(rows) for rows in splits.values())
    fold_N = assign_group_folds(labels, groups, folds, seed=seed)
    assert all(len(set(fold_N[groups == group])) == 1 for group in groups)


@given(st.lists(st.integers(0, 2), min_size=8, max_size=80), st.integers(0, 99))
def test_without_copies_groups_change_nothing(labels, seed):
    labels, alone = np.array(labels), np.arange(len(labels))
    count = len(labels) // 4
    rng = np.random.default_rng
    sampled = sample_groups(labels, alone, count, rng=rng(seed))
    assert np.array_equal(sampled, sample_stratified(labels, count, rng=rng(seed)))
    folds = assign_group_folds(labels, alone, 3, seed=seed)
    assert np.array_equal(folds, assign_folds(labels, 3, seed=seed))


@given(st.lists(st.integers(20, 60), min_size=2, max_size=5), st.integers(0, 99))
def test_complete_splits_are_stratified_to_within_two_images(each, seed):
    labels = np.repeat(np.arange(len(each)), each)
    splits = complete_splits(labels, np.zeros(len(labels), np.uint8), seed=seed)
    share = count_held_out(len(labels)) / len(labels)
    for name in ("validation", "test"):
        counts = np.bincount(labels[splits[name]], minlength=len(each))
        assert np.all(np.abs(counts - share * np.array(each)) < 2)


@pytest.mark.parametrize(
    ("classes", "counts"),
    [
        (("a",), {"train": (9,)}),
        (("a", "b"), {"train": (9, 0)}),
        (("a", "b"), {"train": (2, 1)}),
        (("a", "b"), {"train": (1, 1), "test": (1, 0)}),
    ],
)
def test_check_sizes_rejects_too_few_images(classes, counts, snapshot):
    with snapshot.raises(FaultsError):
        check_sizes(classes, counts, "here")


def test_require_of_missing_package_names_extra(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_such_package").mkdir()  # a folder is none
    with snapshot.raises(FaultsError):
        check_package("no_such_package", "extra", "NAME")
    check_package("numpy", "extra", "NAME")


def test_complete_splits_of_copies_alone_raises(snapshot):
    labels = np.arange(8) % 2
    splits_N = np.zeros(8, np.uint8)
    with snapshot.raises(DataError):
        complete_splits(labels, splits_N, seed=0, groups_N=labels)
