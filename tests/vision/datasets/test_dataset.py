"""Splits of a data set, and the folder that it lies in."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.datasets._dataset import (
    data_folder,
    split_train_validation_test,
    stratified_sample,
)

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(np.array)


@given(LABELS, st.data())
def test_a_sample_has_the_count_and_every_class_in_its_share(labels, data):
    count = data.draw(st.integers(0, len(labels)))
    chosen = stratified_sample(labels, count, rng=np.random.default_rng(0))
    assert len(set(chosen.tolist())) == count
    for label in np.unique(labels):
        share = count * np.mean(labels == label)
        assert abs(np.sum(labels[chosen] == label) - share) < 1


@given(LABELS, st.data(), st.integers(0, 2**32))
def test_the_three_splits_are_a_partition_and_repeat(labels, data, seed):
    test = data.draw(st.integers(0, len(labels)))
    validation = data.draw(st.integers(0, len(labels) - test))
    sizes = {"validation": validation, "test": test}
    splits = split_train_validation_test(labels, **sizes, seed=seed)
    assert sorted(np.concatenate(list(splits.values()))) == list(range(len(labels)))
    assert {name: len(splits[name]) for name in sizes} == sizes
    again = split_train_validation_test(labels, **sizes, seed=seed)
    assert all(np.array_equal(splits[name], again[name]) for name in splits)


def test_seeds_differ():
    labels = np.arange(100) % 4
    first = stratified_sample(labels, 40, rng=np.random.default_rng(0))
    second = stratified_sample(labels, 40, rng=np.random.default_rng(1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("data_dir", "variable", "expected"),
    [
        ("/given", "/variable", "/given"),
        (None, "/variable", "/variable"),
        (None, "", "/home/me/.cache/tuner"),
        ("~/mine", None, "/home/me/mine"),
    ],
)
def test_data_folder(data_dir, variable, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("TUNER_DATA", variable or "")
    assert data_folder(data_dir) == Path(expected)
