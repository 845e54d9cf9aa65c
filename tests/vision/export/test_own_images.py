"""A classifier of a user's images: its export, and the metrics of the export."""

import json
import shutil

import numpy as np
import photos
import pytest
import torch
from handed import trained
from PIL import Image
from synthetic import read_document

import tuner
from tuner.errors import CheckpointError, DataError, UsageError
from tuner.vision.export.evaluate import evaluate, evaluate_export
from tuner.vision.export.read import load_model, read_export
from tuner.vision.sources._pixels import crop_square


@pytest.fixture
def photos_dir(tmp_path, data_home):
    return photos.write(tmp_path / "photos", each=40)


@pytest.fixture
def results(photos_dir, tmp_path):
    return trained(
        tmp_path / "results/photos", dataset=f"folder:{photos_dir}", image_size=12
    )


def test_export_needs_no_images_and_names_no_paths(results, photos_dir, tmp_path):
    photos_dir.rename(tmp_path / "elsewhere")
    to = results.export(tmp_path / "out")
    config = read_export(to).config
    assert config.classes == photos.CLASSES
    assert config.model.shape == "3x12x12"
    assert (config.data.train, config.data.validation, config.data.test) == (84, 18, 18)
    assert config.data.name == config.training["dataset"] == "folder:photos"
    for name in ("config.json", "README.md"):
        assert str(tmp_path) not in (to / name).read_text()
    assert load_model(to)(torch.zeros(1, 3, 12, 12)).shape == (1, 3)


def test_evaluate_of_moved_images_uses_the_split_of_the_search(
    snapshot, results, photos_dir, tmp_path, monkeypatch
):
    to = results.export(tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    moved = photos_dir.rename(tmp_path / "elsewhere/photos")
    measured = evaluate(results, data_dir=str(moved))
    monkeypatch.chdir(moved.parent)
    measured_again = evaluate_export(read_export(to))
    for key in ("confusion", "images", "baseline", "test_accuracy"):
        assert measured_again[key] == measured[key]
    assert measured["images"] == 18
    files = [
        [each["file"] for each in m["mistakes"]] for m in (measured, measured_again)
    ]
    assert files[0] == files[1]
    assert all(file.startswith(str(moved)) for file in files[0])
    (moved / "rose/0003.jpg").unlink()
    with snapshot.raises(DataError):
        evaluate_export(read_export(to))


@pytest.fixture
def export(results, tmp_path):
    return read_export(results.export(tmp_path / "out"))


def predicted(export, folder, names="*.jpg", bits=None):
    """How many of the images of `folder` the model gets right, and how many there are."""
    model = export.load_model()
    mean_C = torch.tensor(export.config.input.mean)
    std_C = torch.tensor(export.config.input.std)
    files = sorted(folder.glob(f"*/{names}"))
    right = 0
    for file in files:
        pixels = crop_square(Image.open(file), size=12, channels=3, bits=bits)
        x_HWC = (torch.tensor(pixels) / 255 - mean_C) / std_C
        label = model(x_HWC.permute(2, 0, 1)[None]).argmax()
        right += photos.CLASSES[label] == file.parent.name
    return right, len(files)


def test_evaluate_export_of_some_classes_keeps_the_labels_of_the_model(
    snapshot, export, tmp_path
):
    some = photos.write(tmp_path / "some", each=1, seed=1000)
    for name in ("daisy", "rose"):
        shutil.rmtree(some / name)
    measured = evaluate_export(export, data_dir=str(some))
    assert (measured["images"], measured["baseline"]) == (1, 1)
    assert measured["test_accuracy"] == predicted(export, some)[0]
    photos.write(some, each=1, classes=("cat", "dog"))
    with snapshot.raises(UsageError):
        evaluate_export(export, data_dir=str(some))


def test_evaluate_export_of_splits_measures_the_test_folder(snapshot, export, tmp_path):
    root = tmp_path / "splits"
    photos.write(root / "Test", each=5, seed=2000)
    assert evaluate_export(export, data_dir=str(root))["images"] == 15
    photos.write(root / "train", each=7)
    photos.write(root / "val", each=6)
    assert evaluate_export(export, data_dir=str(root))["images"] == 15
    assert evaluate_export(export, data_dir=str(root / "val"))["images"] == 18
    shutil.rmtree(root / "Test")
    with snapshot.raises(UsageError):
        evaluate_export(export, data_dir=str(root))


def test_evaluate_export_on_the_images_of_its_training_warns(
    export, photos_dir, caplog
):
    assert evaluate_export(export, data_dir=str(photos_dir))["images"] == 120
    [record] = caplog.records
    assert (
        "84 of these 120 are its training split, so the metrics flatter"
        in record.message
    )


def test_evaluate_export_of_missing_or_empty_folder_raises(snapshot, export, tmp_path):
    with snapshot.raises(UsageError):
        evaluate_export(export, data_dir=str(tmp_path / "gone"))
    (tmp_path / "empty").mkdir()
    with snapshot.raises(UsageError):
        evaluate_export(export, data_dir=str(tmp_path / "empty"))


def deep(folder, most):
    """Make the photos in `folder` grey images of 16 bits, with pixels up to `most`."""
    for path in sorted(folder.rglob("*.jpg")):
        pixels = np.asarray(Image.open(path).convert("L")) / 255 * most
        Image.fromarray(pixels.astype(np.uint16)).save(path.with_suffix(".png"))
        path.unlink()


def test_deep_images_for_a_model_of_8_bits_must_use_all_bits(results, tmp_path):
    """They would be nearly black."""
    to = results.export(tmp_path / "out")
    others = photos.write(tmp_path / "others", each=2, seed=1000)
    deep(others, 4095)
    file = next(others.rglob("*.png"))
    used = int(np.asarray(Image.open(file)).max()).bit_length()
    rule = f"uses {used} of 16 bits a channel, and the model was trained on images of 8"
    [prediction] = tuner.predict(to, file)
    assert rule in prediction.fault
    with pytest.raises(DataError, match=rule):
        tuner.load_image(file, to)
    export = read_export(to)
    with pytest.raises(DataError, match="was trained on images of 8"):
        evaluate_export(export, data_dir=str(others))
    every = photos.write(tmp_path / "all", each=2, seed=1000)
    deep(every, 65535)
    assert evaluate_export(export, data_dir=str(every))["images"] == 6


def test_evaluate_export_scales_deep_images_as_in_training(photos_dir, tmp_path):
    deep(photos_dir, 4095)
    dataset = f"folder:{photos_dir}"
    results = trained(tmp_path / "results/deep", dataset=dataset, image_size=12)
    export = read_export(results.export(tmp_path / "out"))
    assert export.config.training["image_bits"] == export.config.input.bits == 12
    others = photos.write(tmp_path / "others", each=20, seed=1000)
    deep(others, 1023)  # darker, and not to be scaled by 10 bits
    right, count = predicted(export, others, "*.png", bits=12)
    assert (
        evaluate_export(export, data_dir=str(others))["test_accuracy"] == right / count
    )


def test_export_imports_and_reads_nothing_that_a_folder_names(results, tmp_path):
    document = read_document(results.folder / "experiment.json")
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
