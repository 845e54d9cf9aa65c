"""Images of a user's own, from a folder or a function to a model that is handed over."""

import json
import shutil
import sys

import photos
import pytest
import torch
from commands import call

import tuner
from tuner.experiment.results.results import Results

SHORT = ("--num-samples", "2", "scheduler.max_t=2", "training.model=cnn", "training.width=4")

MODULE = """
import numpy as np
from PIL import Image


class Squares:
    \"\"\"A map-style Dataset: in class 1 the upper half is bright.\"\"\"

    classes = ["dark", "bright"]

    def __len__(self):
        return 60

    def __getitem__(self, number):
        rng = np.random.default_rng(number)
        pixels = rng.integers(0, 90, (20, 20)).astype(np.uint8)
        pixels[:10] += 120 * (number % 2)
        return Image.fromarray(pixels), number % 2


def load():
    return {"train": Squares(), "test": Squares()}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.slow
def test_a_folder_alone_becomes_a_model(here, ray_here):
    photos.write(here / "photos", each=40)
    done = call("run", "folder:photos", *SHORT, "--json")
    assert done.return_value == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["name"] == "photos"
    assert 0 <= shown["test"]["test_accuracy"] <= 1
    results = Results(here / "results" / "photos")
    assert results.spec.training["dataset"] == f"folder:{here / 'photos'}"
    assert len(list((here / "data" / "decoded").glob("photos-*"))) == 1
    shutil.rmtree(here / "photos")  # an export needs the images no more
    assert call("export", "photos", "--to", "model").return_value == 0
    model = tuner.load_model(here / "model")
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 3)
    others = photos.write(here / "others", each=20, seed=500)
    again = call("evaluate", "model", "--data", others, "--json")
    assert again.return_value == 0, again.stderr
    assert json.loads(again.stdout)["test_loss"] > 0


@pytest.mark.slow
def test_a_function_of_the_users_gives_the_images_of_a_search_of_two_workers(here, ray_here):
    (here / "squares_of_a_test.py").write_text(MODULE)
    (here / "mine.yaml").write_text(
        "training: {dataset: 'squares_of_a_test:load', model: cnn, width: 4, norm: group}\n"
        "search: {space: {lr: 'loguniform(0.1, 1)', batch_size: 'choice([8])'}}\n"
        "resources: {cpus: 0.5, workers: 2}\n"
        "scheduler: {max_t: 2}\nnum_samples: 2\n"
    )
    done = call("run", "mine.yaml", "--json")
    assert done.return_value == 0, done.stderr
    # Both splits are the same images, whose labels are by number: 60 / 60, less those split off
    assert "exact copies of images of another split" in done.stderr
    results = Results(here / "results" / "mine")
    assert {trial.status for trial in results.trials.values()} <= {"completed", "stopped"}
    confirmed = call("confirm", "mine", "--top", "1", "--seeds", "1", "--json")
    assert confirmed.return_value == 0, confirmed.stderr
    assert call("export", "mine", "--to", "model").return_value == 0
    config = json.loads((here / "model" / "config.json").read_text())
    assert config["classes"] == ["dark", "bright"]
    assert config["model"]["in_channels"] == 1
