"""A classifier of a user's own images, handed over: what is exported of it, and measured again."""

import json

import numpy as np
import photos
import pytest
import torch
from handed import trained
from PIL import Image

from tuner.classifier.catalog import DataChoice, decoded_before
from tuner.errors import CheckpointError, DataError, UsageError
from tuner.export.evaluate import evaluate, evaluate_export
from tuner.export.read import load_model, read_export


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    return photos.write(tmp_path / "photos", each=40)


@pytest.fixture
def results(place, tmp_path):
    return trained(tmp_path / "results" / "photos", dataset=f"folder:{place}", image_size=12)


def test_an_export_needs_neither_the_images_nor_their_place(results, place, tmp_path):
    place.rename(tmp_path / "elsewhere")
    to = results.export(tmp_path / "out")
    config = read_export(to).config
    assert config.classes == photos.CLASSES
    assert (config.model.in_channels, config.model.image_size, config.model.num_classes) == (
        3,
        12,
        3,
    )
    assert len(config.input.mean) == len(config.input.std) == 3
    assert (config.data.train, config.data.validation, config.data.test) == (84, 18, 18)
    assert config.data.name == config.training["dataset"] == "folder:photos"
    assert str(tmp_path) not in (to / "config.json").read_text() + (to / "README.md").read_text()
    assert load_model(to)(torch.zeros(1, 3, 12, 12)).shape == (1, 3)


def test_the_test_split_is_that_of_the_search_wherever_the_images_lie(results, place, tmp_path):
    to = results.export(tmp_path / "out")
    moved = place.rename(tmp_path / "elsewhere")
    measured = evaluate(results, data_dir=str(moved))
    again = evaluate_export(read_export(to), data_dir=str(moved))
    assert measured["test_loss"] == pytest.approx(again["test_loss"])


def test_other_images_have_no_test_split_of_the_search(results, place, tmp_path):
    (place / "rose" / "0003.jpg").unlink()
    with pytest.raises(DataError, match="these are not the images that the checkpoint was"):
        evaluate(results)


def test_an_export_is_measured_on_other_images_of_the_same_classes(results, tmp_path):
    to = results.export(tmp_path / "out")
    others = photos.write(tmp_path / "others", each=20, seed=1000)
    assert 0 <= evaluate_export(read_export(to), data_dir=str(others))["test_accuracy"] <= 1
    strange = photos.write(tmp_path / "strange", each=20, classes=("cat", "dog", "owl"))
    with pytest.raises(UsageError, match=r"has classes cat, dog, owl; the model of .* daisy, rose"):
        evaluate_export(read_export(to), data_dir=str(strange))


def test_an_export_scales_deep_images_as_it_was_trained(place, tmp_path):
    def deep(folder, most):
        for path in sorted(folder.rglob("*.jpg")):
            pixels = np.asarray(Image.open(path).convert("L")) / 255 * most
            Image.fromarray(pixels.astype(np.uint16)).save(path.with_suffix(".png"))
            path.unlink()

    deep(place, 4095)
    dataset = f"folder:{place}"
    results = trained(tmp_path / "results" / "deep", dataset=dataset, image_size=12)
    export = read_export(results.export(tmp_path / "out"))
    assert export.config.training["image_bits"] == 12
    others = photos.write(tmp_path / "others", each=20, seed=1000)
    deep(others, 1023)  # darker, and not to be scaled by 10 bits
    evaluate_export(export, data_dir=str(others))
    choice = DataChoice(f"folder:{others}", None, 12, image_bits=12)
    assert decoded_before(choice)


def test_exporting_imports_and_reads_nothing_that_a_folder_names(results, tmp_path):
    document = json.loads((results.folder / "experiment.json").read_text())
    document["spec"]["training"]["dataset"] = "their_images:load"
    (results.folder / "experiment.json").write_text(json.dumps(document))
    foreign = type(results)(results.folder)
    foreign.export(tmp_path / "out")  # which the checkpoint tells enough for
    state = results.best_checkpoint().path
    saved = torch.load(state, weights_only=True)
    del saved["data"]
    torch.save(saved, state)
    with pytest.raises(CheckpointError):
        type(results)(results.folder).export(tmp_path / "other")
