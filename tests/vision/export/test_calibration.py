"""The temperature of an export, and what it does to probabilities."""

import json
import shutil

import pytest
import torch
from handed import trained

from tuner.vision.export.calibration import calibration_error, fitted
from tuner.vision.export.evaluate import evaluate, evaluate_export
from tuner.vision.export.read import read_export
from tuner.vision.export.write import export_model


def logits_of(accuracy_scale: float, *, count: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are `accuracy_scale` times as sure as they are right, and the labels."""
    generator = torch.Generator().manual_seed(0)
    true_NK = 2 * torch.randn(count, 5, generator=generator)
    labels_N = true_NK.softmax(1).multinomial(1, generator=generator)[:, 0]
    return accuracy_scale * true_NK, labels_N


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_fitted_finds_how_much_too_sure_the_logits_are(scale):
    calibration = fitted(*logits_of(scale))
    assert calibration.temperature == pytest.approx(scale, rel=0.1)
    assert calibration.error_after < 0.03
    assert calibration.images == 4000


def test_calibration_error_is_the_distance_of_probability_and_accuracy():
    logits_NK = torch.tensor([[9.0, -9.0]] * 4, dtype=torch.float64)
    assert calibration_error(logits_NK, torch.tensor([0, 0, 0, 1])) == pytest.approx(0.25, abs=1e-6)


def test_an_export_has_the_temperature_of_its_validation_images(tmp_path):
    export_model(trained(tmp_path / "digits"), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["calibration"]["images"] == 360
    assert config["calibration"]["error_after"] <= config["calibration"]["error_before"] + 0.02


def test_an_export_of_a_fold_has_the_temperature_of_its_held_out_images(tmp_path):
    results = trained(tmp_path / "digits", folds=2, fold_epochs=1)
    config = json.loads((export_model(results, tmp_path / "m") / "config.json").read_text())
    assert config["calibration"]["images"] == 719  # the second fold of 1,437 images holds out 718
    assert (config["data"]["train"], config["data"]["validation"]) == (718, 719)
    card = " ".join((tmp_path / "m" / "README.md").read_text().split())
    assert "The model is that of fold 1 alone, which trained without the images" in card
    again = evaluate_export(read_export(tmp_path / "m"))
    assert evaluate(results)["test_accuracy"] == again["test_accuracy"]


def test_an_export_of_a_refit_has_the_temperature_of_the_trial_that_it_takes_after(tmp_path):
    source = export_model(trained(tmp_path / "s"), tmp_path / "source")
    refits = {"name": "s", "trial_id": "00000", "epoch": 1, "chosen_by": "val_loss", "value": 0.25}
    spec = {"metric": "epochs_trained", "refits": refits}
    results = trained(tmp_path / "s-refit", spec=spec, train_on="train+validation")
    to = export_model(results, tmp_path / "model")
    config, before = (json.loads((f / "config.json").read_text()) for f in (to, source))
    assert (config["calibration"], config["refit"]) == (before["calibration"], refits)
    assert (config["data"]["train"], config["data"]["validation"]) == (1437, 0)
    shutil.rmtree(tmp_path / "s")
    alone = export_model(results, tmp_path / "alone")
    assert json.loads((alone / "config.json").read_text())["calibration"] is None


@pytest.mark.parametrize("temperature", [0.5, 4.0])
def test_predict_and_evaluate_divide_the_logits_by_the_temperature(temperature, tmp_path):
    folder = export_model(trained(tmp_path / "digits"), tmp_path / "model")
    measured = []
    for value in (1.0, temperature):
        config = json.loads((folder / "config.json").read_text())
        config["calibration"]["temperature"] = value
        (folder / "config.json").write_text(json.dumps(config))
        measured.append(evaluate_export(read_export(folder)))
    assert measured[0]["test_accuracy"] == measured[1]["test_accuracy"]
    assert measured[0]["test_loss"] != measured[1]["test_loss"]


def test_an_export_normalises_as_its_training_did(tmp_path):
    folder = export_model(trained(tmp_path / "digits", pixel_stats="imagenet"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    assert config["input"]["mean"] == [pytest.approx(0.449)]
