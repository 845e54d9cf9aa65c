"""The classes of image files by an exported model, dirty files among them."""

import math
import os
import shutil
from pathlib import Path
from statistics import mean

import photos
import pytest
import torch
from handed import REFITS, read_card, trained
from PIL import Image
from synthetic import read_document

import tuner
from tuner.errors import UsageError
from tuner.vision.export import predict as module
from tuner.vision.export import write
from tuner.vision.export.calibration import fit_calibration
from tuner.vision.export.evaluate import evaluate, evaluate_export
from tuner.vision.export.predict import (
    Prediction,
    find_image_files,
    predict,
    predict_files,
)
from tuner.vision.export.read import read_export
from tuner.vision.export.write import export_model


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """With TUNER_DATA there, and photos to train on."""
    folder = tmp_path_factory.mktemp("storage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_DATA", str(folder / "data"))
        photos.write(folder / "photos", each=40)
        yield folder


def exported(storage, name, **training):
    dataset = f"folder:{storage / 'photos'}"
    results = trained(
        storage / "results" / name, dataset=dataset, image_size=12, **training
    )
    return results.export(storage / name)


@pytest.fixture(scope="module")
def model(storage):
    return exported(storage, "model")


def expected(model, file):
    with torch.no_grad():
        logits_NK = tuner.load_model(model)(tuner.load_image(file, model))
    return logits_NK.softmax(1)[0].tolist()


@pytest.mark.parametrize(
    ("training", "rounding"),
    [
        ({"test_time_flip": True, "vertical_flip": True, "dtype": "float64"}, 1e-6),
        ({"precision": "bf16", "metrics": ["balanced_accuracy"]}, 0.05),
    ],
)
def test_predict_gives_the_probabilities_of_evaluate(
    storage, tmp_path, training, rounding
):
    to = exported(storage, "-".join(training), **training)
    new = photos.write(tmp_path / "new", each=50, seed=50)
    predictions = list(predict(to, [new]))
    names = [Path(each.file).parent.name for each in predictions]
    labelled = list(zip(predictions, names, strict=True))
    for each in predictions[:9]:
        by_label = dict(zip(photos.CLASSES, expected(to, each.file), strict=True))
        assert dict(each.top) == pytest.approx(by_label, abs=rounding)
    measured = evaluate_export(read_export(to), data_dir=str(new))
    losses = [-math.log(dict(each.top)[name]) for each, name in labelled]
    assert measured["test_loss"] == pytest.approx(mean(losses), abs=1e-6)
    right = mean(each.label == name for each, name in labelled)
    assert measured["test_accuracy"] == pytest.approx(right)
    # Of classes of equally many images
    assert measured.get("test_balanced_accuracy", right) == pytest.approx(right)
    assert ("test_balanced_accuracy" in measured) == ("metrics" in training)
    assert measured["images"] == 150


def dirty(folder):
    """(files that can be read, files that cannot): what lies in folders of photos."""
    folder.mkdir()
    rgb = Image.fromarray(photos.pixels(0, seed=1))
    images = ["0.jpg", "1.PNG", "2.webp", "3.bmp", "moving.gif"]
    for name in images[:-1]:
        rgb.save(folder / name)
    rgb.save(folder / images[-1], save_all=True, append_images=[rgb.rotate(90)])
    bad = {"page.png": b"<html></html>", "huge.ppm": b"P6 60000 60000 255\n"}
    for name in images:
        content = (folder / name).read_bytes()
        bad[f"begun_{name}"] = content[:20]
        bad[f"cut_{name}"] = content[: len(content) // 4]
    for name, data in bad.items():
        (folder / name).write_bytes(data)
    (folder / "x.jpg").mkdir()
    os.mkfifo(folder / "pipe.jpg")
    (folder / "broken.jpg").symlink_to("nowhere.jpg")
    (folder / ".hidden.jpg").write_bytes(b"")
    (folder / "notes.txt").write_text("no image")
    bad |= dict.fromkeys(("pipe.jpg", "broken.jpg"))
    return [folder / name for name in images], [folder / name for name in bad]


def test_predict_continues_after_unreadable_files(model, tmp_path):
    good, bad = dirty(tmp_path / "dirty")
    extra = tmp_path / "gone.jpg", tmp_path / "dirty/x.jpg"
    predictions = {
        each.file: each for each in predict(model, [tmp_path / "dirty", *extra])
    }
    for file in (*bad, *extra):
        each = predictions.pop(str(file))
        assert each == Prediction(str(file), fault=each.fault)
        assert each.fault
    assert predictions.keys() == {*map(str, good)}
    for file, each in predictions.items():
        values = [dict(each.top)[name] for name in photos.CLASSES]
        assert values == pytest.approx(expected(model, file), abs=1e-6), file
        assert (each.label, each.probability) == each.top[0]
        assert each.probability == max(values)


def test_predict_keeps_the_order_of_paths_over_several_batches(
    model, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_BATCH_BYTES", 4 * 3 * 12 * 12)  # four images
    new = photos.write(tmp_path / "new", each=3, seed=50)
    unreadable = new / "rose/0001.jpg"
    unreadable.write_bytes(b"")
    predictions = list(predict(model, [new / "tulip", new / "rose"], top=1))
    files = [*sorted((new / "tulip").iterdir()), *sorted((new / "rose").iterdir())]
    assert [each.file for each in predictions] == [*map(str, files)]
    assert predictions.pop(files.index(unreadable)).fault
    for each in predictions:
        [(_, probability)] = each.top
        assert probability == pytest.approx(max(expected(model, each.file)), abs=1e-6)


def test_image_files_are_in_order_and_below_folders(tmp_path):
    names = ["b/10.JPG", "b/2.png", "b/a/1.tif", "d.jpg/e.webp"]
    for name in ("a.txt", ".c/1.png", *reversed(names)):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    (tmp_path / "b/loop").symlink_to(tmp_path)
    assert find_image_files([tmp_path]) == [str(tmp_path / name) for name in names]
    hidden = str(tmp_path / ".c")
    assert find_image_files(["gone", hidden]) == ["gone", f"{hidden}/1.png"]


def test_predict_rejects_model_without_image_input(snapshot, model, tmp_path):
    with snapshot.raises(UsageError):
        predict(tmp_path, [])
    export = read_export(model)
    export.config.__dict__["classes"] = ("daisy",)
    with snapshot.raises(UsageError):
        predict_files(export, ["a.jpg"])
    export.config.__dict__["input"] = None
    with snapshot.raises(UsageError):
        predict_files(export, ["a.jpg"])


def test_the_temperature_is_fitted_to_images_of_all_classes(storage, monkeypatch):
    """The rows of a split are ordered by class, so the first ones are of one class."""
    labels = []

    def noted(logits_NK, labels_N):
        labels.append(labels_N)
        return fit_calibration(logits_NK, labels_N)

    monkeypatch.setattr(write, "MOST_CALIBRATED", 4)
    monkeypatch.setattr(write, "fit_calibration", noted)
    exported(storage, "few")
    [labels_N] = labels
    assert (len(labels_N), len(labels_N.unique())) == (4, 3)


def test_an_export_of_a_fold_has_the_temperature_of_its_held_out_images(tmp_path):
    results = trained(tmp_path / "digits", folds=2, fold_epochs=1)
    config = read_document(export_model(results, tmp_path / "m") / "config.json")
    # The second fold of 1,437 images holds out 718
    assert config["calibration"]["images"] == 719
    assert (config["data"]["train"], config["data"]["validation"]) == (718, 719)
    text = "The model is that of fold 1 alone, which trained without the images"
    assert text in read_card(tmp_path / "m")
    again = evaluate_export(read_export(tmp_path / "m"))
    assert evaluate(results)["test_accuracy"] == again["test_accuracy"]


def test_an_export_of_a_refit_has_the_temperature_of_the_trial_that_it_takes_after(
    tmp_path,
):
    source = export_model(trained(tmp_path / "s"), tmp_path / "source")
    spec = {"metric": "epochs_trained", "refits": REFITS}
    results = trained(tmp_path / "s-refit", spec=spec, train_on="train+validation")
    to = export_model(results, tmp_path / "model")
    config, before = (read_document(f / "config.json") for f in (to, source))
    assert config["calibration"] == before["calibration"]
    assert config["refit"] == {**REFITS, "final": False}
    assert (config["data"]["train"], config["data"]["validation"]) == (1437, 0)
    shutil.rmtree(tmp_path / "s")
    alone = export_model(results, tmp_path / "alone")
    assert read_document(alone / "config.json")["calibration"] is None


def test_a_final_model_is_measured_on_other_images_alone(tmp_path, snapshot):
    spec = {"metric": "epochs_trained", "refits": {**REFITS, "final": True}}
    results = trained(tmp_path / "s-refit", spec=spec, train_on="all")
    with snapshot.raises(UsageError):
        evaluate(results)
    to = export_model(results, tmp_path / "model")
    config = read_document(to / "config.json")
    assert (config["data"]["train"], config["data"]["validation"]) == (1797, 0)
    assert config["refit"]["final"]
    text = "A refit: trained on all images, those of the test split too, for 1 epochs"
    assert text in read_card(to)
    with snapshot.raises(UsageError):
        evaluate_export(read_export(to))
