"""Splits of a data set, and the folder that it lies in."""

from pathlib import Path

import numpy as np
import photos
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import CheckpointError, DataError, SpecError
from tuner.vision.datasets._dataset import (
    DATA,
    encode_info,
    read_info,
    resolve_data_folder,
    sample_stratified,
    split_train_validation_test,
)
from tuner.vision.image_classifier import ImageClassifier

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=80).map(np.array)


@given(LABELS, st.data())
def test_stratified_sample_has_each_class_in_its_share(labels, data):
    count = data.draw(st.integers(0, len(labels)))
    chosen = sample_stratified(labels, count, rng=np.random.default_rng(0))
    assert len(set(chosen.tolist())) == count
    for label in np.unique(labels):
        share = count * np.mean(labels == label)
        assert abs(np.sum(labels[chosen] == label) - share) < 1


@given(LABELS, st.data(), st.integers(0, 2**32))
def test_split_train_validation_test_is_a_repeatable_partition(labels, data, seed):
    test = data.draw(st.integers(0, len(labels)))
    validation = data.draw(st.integers(0, len(labels) - test))
    sizes = {"validation": validation, "test": test}
    splits = split_train_validation_test(labels, **sizes, seed=seed)
    assert sorted(np.concatenate([*splits.values()])) == [*range(len(labels))]
    assert {name: len(splits[name]) for name in sizes} == sizes
    again = split_train_validation_test(labels, **sizes, seed=seed)
    assert all(map(np.array_equal, splits.values(), again.values()))


@pytest.mark.parametrize(
    ("data_dir", "variable", "expected"),
    [
        ("/given", "/variable", "/given"),
        (None, "/variable", "/variable"),
        (None, "", "/home/me/.cache/tuner"),
        ("~/mine", None, "/home/me/mine"),
    ],
)
def test_data_folder_prefers_setting_then_environment(
    data_dir, variable, expected, monkeypatch
):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("TUNER_DATA", variable or "")
    assert resolve_data_folder(data_dir) == Path(expected)


# N batch, C channels, H W pixels
SETTINGS = {"model": "cnn", "width": 2, "batch_size": 8, "epochs": 2, "image_size": 8}


@pytest.fixture
def photos_dir(tmp_path, data_home):
    return photos.write(tmp_path / "photos", each=12)


def learner(photos_dir, **changed):
    return ImageClassifier(
        {"lr": 0.1}, {**SETTINGS, "dataset": f"folder:{photos_dir}", **changed}
    )


def test_state_of_a_folder_describes_its_data(snapshot, photos_dir, tmp_path):
    first = learner(photos_dir)
    first.step()
    torch.save(first.state_dict(), tmp_path / "state")
    state = torch.load(tmp_path / "state", weights_only=True)
    info = read_info(state)
    assert info.classes == photos.CLASSES
    assert encode_info(info) == state[DATA]
    assert (info.train, info.validation, info.test) == (26, 5, 5)
    second = learner(photos_dir)
    second.load_state_dict(state)
    assert second.step()["val_loss"] == first.step()["val_loss"]
    with snapshot.raises(DataError):
        info.load(tmp_path, split_seed=0)


def test_load_state_dict_rejects_changed_images(snapshot, photos_dir):
    state = learner(photos_dir).state_dict()
    photos.write(photos_dir, each=13)
    with snapshot.raises(DataError):
        learner(photos_dir).load_state_dict(state)


@pytest.mark.parametrize("data", [3, {"classes": []}, {"strange": 1}])
def test_info_in_a_damaged_description_raises(snapshot, data):
    with snapshot.raises(CheckpointError):
        read_info({DATA: data})


@pytest.mark.parametrize("name", ["folder:photos", "their_module:load"])
def test_image_classifier_rejects_a_config_with_custom_data(snapshot, name):
    with snapshot.raises(SpecError):
        ImageClassifier({"dataset": name}, SETTINGS)
