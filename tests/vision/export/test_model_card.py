import json
import re
from typing import Any

import numpy as np
import pytest
from handed import trained
from PIL import Image
from sklearn.datasets import load_digits

import tuner
from tuner.vision.export.model_card import render_card
from tuner.vision.export.read import ExportConfig
from tuner.vision.sources._pixels import crop_square

PIXELS = {"channels": 3, "size": 32, "resize": {"mode": "RGB"}}
CONFIG = {
    "trainable": "tuner.vision.image_classifier:ImageClassifier",
    "model": {
        "name": "cnn",
        "settings": {"width": 16, "norm": "batch"},
        "in_channels": 3,
        "image_size": 32,
        "num_classes": 12,
    },
    "input": PIXELS
    | {"mean": (0.5, 0.25, 0.125), "std": (0.25, 0.25, 0.5), "mirrored": True},
    "data": {
        "name": "photos",
        "title": "Photographs",
        "origin": "a camera",
        "licence": "CC0",
        "train": 45_000,
        "validation": 5_000,
        "test": 10_000,
        "split_seed": 3,
    },
    "classes": [f"kind{number}" for number in range(12)],
    "training": {"epochs": 10, "seed": 1},
    "config": {"lr": 0.12345678, "layers": [8, 4], "norm": None},
    "seed": 1,
    "weights_sha256": "0" * 64,
    "experiment": "first-confirm",
    "trial_id": "00003",
    "epoch": 9,
    "checkpoint_sha256": "1" * 64,
    "search": {
        "experiment": "first",
        "strategy": "hyperopt",
        "space": {"lr": "loguniform(0.001, 1)", "layers": "choice([[8, 4], [16]])"},
        "scheduler": {
            "name": "asha",
            "max_t": 10,
            "reduction_factor": 3.0,
            "brackets": None,
        },
        "seed": 0,
        "counts": {"completed": 4, "stopped": 20, "failed": 0},
    },
    "versions": {"torch": "2.13.0"},
}
METRICS = {
    "metrics": {"train_loss": 0.1, "val_loss": 0.25, "val_accuracy": 0.9},
    "objective": {"metric": "val_accuracy", "mode": "max"},
    "test": {"test_loss": 0.3, "test_accuracy": 0.875},
    "confirmed": {"mean": 0.89, "standard_error": 0.0125, "seeds": 3, "searched": 0.92},
}


def card(config=None, metrics=None):
    built = ExportConfig.model_validate(CONFIG | (config or {}))
    return render_card(built, METRICS | (metrics or {}), name="best_model")


UNKNOWN = {"model": None, "input": None, "data": None}
CARDS: dict[str, Any] = {
    "of a search": ({}, {}),
    "of a refit": (
        {
            "refit": {
                "name": "first",
                "trial_id": "00003",
                "epoch": 9,
                "chosen_by": "val_loss",
                "value": 0.25,
            }
        },
        {"metrics": {"epochs_trained": 9, "val_loss": 0.1}},
    ),
    "of an unbeaten baseline": (
        {
            "data": CONFIG["data"] | {"baseline": 0.125},
            "input": CONFIG["input"] | {"upside_down": True},
        },
        {"test": METRICS["test"] | {"images": 40, "baseline": 0.8}},
    ),
    "without what was not measured": (
        {"input": CONFIG["input"] | {"mirrored": False}},
        {"test": None, "confirmed": None},
    ),
    "of a custom learner": ({**UNKNOWN, "trainable": "mine:MyLearner"}, {}),
    "of a folder": (
        {**UNKNOWN, "trainable": "mine:MyLearner", "weights_sha256": None},
        {},
    ),
    "of a script": (
        {**UNKNOWN, "trainable": "$ python train.py", "weights_sha256": None},
        {},
    ),
}


@pytest.mark.parametrize(("config", "metrics"), CARDS.values(), ids=CARDS)
def test_card_has_all_facts_for_the_receiver(snapshot, config, metrics):
    snapshot(card(config, metrics))


def programs(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_card_program_names_the_class_of_an_image(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    to = trained(tmp_path / "digits").export("best_model")
    Image.fromarray((load_digits().images[7] * 15).astype(np.uint8)).save("photo.jpg")
    program, _ = programs((to / "README.md").read_text())
    exec(program, {})
    expected = tuner.load_model(to)(tuner.load_image("photo.jpg", to)).argmax()
    assert capsys.readouterr().out == f"{expected}\n"


def noise(*shape, most=255, dtype=np.uint8):
    return np.random.default_rng(len(shape)).integers(0, most + 1, shape).astype(dtype)


def smooth(height, width):
    """A gradient, with a little noise: JPEG keeps it about as it is."""
    rows, columns = np.mgrid[:height, :width] / max(height, width)
    image = np.stack([255 * rows, 255 * columns, 128 * (rows + columns)], 2)
    return (
        (image * 0.9 + noise(height, width, 3, most=20)).clip(0, 255).astype(np.uint8)
    )


TURNED = Image.Exif()
TURNED[0x0112] = 6  # by 90 degrees

IMAGES = {
    "plain.png": (Image.fromarray(smooth(32, 32)), {}),
    "wide.png": (Image.fromarray(noise(45, 83, 3)), {}),
    "large.jpg": (Image.fromarray(smooth(1001, 1503)), {}),  # decoded at a fraction
    # Reduced before it is resized
    "large.png": (Image.fromarray(smooth(800, 601)), {}),
    "turned.jpg": (Image.fromarray(smooth(300, 170)), {"exif": TURNED}),
    "transparent.png": (Image.fromarray(noise(50, 40, 4)), {}),
    "palette.png": (Image.fromarray(smooth(70, 50)).quantize(20), {"transparency": 3}),
    "grey_alpha.png": (Image.fromarray(noise(50, 41, 2)), {}),
    "deep.png": (Image.fromarray(noise(50, 41, most=65535, dtype=np.uint16)), {}),
    "cmyk.jpg": (Image.fromarray(smooth(300, 200)).convert("CMYK"), {}),
}
GREY = ("grey_alpha.png", "deep.png")
MODELS = [(name, 3, "float32") for name in IMAGES] + [
    (name, 1, "float64") for name in GREY
]


@pytest.mark.parametrize(("name", "channels", "dtype"), MODELS)
def test_card_program_without_tuner_gives_the_same_pixels(
    name, channels, dtype, tmp_path
):
    image, options = IMAGES[name]
    path = tmp_path / name
    image.save(path, **options)
    input_settings = (
        CONFIG["input"]
        | {"dtype": dtype, "channels": channels}
        | {k: CONFIG["input"][k][:channels] for k in ("mean", "std")}
    )
    changes = {
        "input": input_settings,
        "model": CONFIG["model"] | {"in_channels": channels},
    }
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"format": 2} | changes))
    program: dict[str, Any] = {}
    exec(programs(card(changes))[1], program)
    expected = crop_square(Image.open(path), size=32, channels=channels)
    assert np.array_equal(program["pixels"](path), expected)
    theirs = program["load_image"](path)
    ours = tuner.load_image(path, tmp_path)
    assert (theirs.shape, f"torch.{theirs.dtype}") == (ours.shape, str(ours.dtype))
    assert np.allclose(theirs, ours, atol=1e-6)


def test_export_of_an_earlier_version_is_read():
    assert card({"input": CONFIG["input"] | {"shifted": 0}}) == card()


def test_card_escapes_foreign_text():
    evil = "a|b\n<script>`x`](http://evil)"
    text = card({"config": {evil: evil}, "experiment": evil})
    assert "<script>" not in text.replace("\\<script", "")
    assert r"| a\|b \<script\>\`x\`\](http://evil) | a\|b" in text
