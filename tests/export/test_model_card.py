import re

import pytest

from tuner.export.model_card import card_text
from tuner.export.read import ExportConfig

CONFIG = {
    "trainable": "tuner.classifier.image_classifier:ImageClassifier",
    "model": {
        "name": "cnn",
        "settings": {"width": 16, "norm": "batch"},
        "in_channels": 3,
        "image_size": 32,
        "num_classes": 12,
    },
    "input": {"mean": (0.5, 0.25, 0.125), "std": (0.25, 0.25, 0.5), "mirrored": True},
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
        "scheduler": {"name": "asha", "max_t": 10, "reduction_factor": 3.0, "brackets": None},
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
    return card_text(built, METRICS | (metrics or {}), name="best_model")


def told(text):
    """The card's words, however its lines are filled."""
    return " ".join(text.split())


def test_it_tells_all_that_the_receiver_needs():
    text = told(card())
    for fact in (
        "# best_model",
        "model cnn, width 16, norm batch. It maps images of 3x32x32 to the logits of 12 classes:",
        "kind9, ...",
        'model = tuner.load_model("best_model")',
        "pixels = torch.rand(2, 3, 32, 32)",
        "| validation | val_accuracy | 0.9 | | validation | val_loss | 0.25 | | test | test_loss |",
        "Chosen by `val_accuracy` (max) on the validation split alone, at epoch 9. The test split "
        "was measured once, for this model.",
        "Confirmed: retrained with 3 fresh seeds this config has a mean `val_accuracy` of 0.89 +- "
        "0.013 (standard error); the search had shown 0.92.",
        "Photographs. From a camera. Licence of the data: CC0.",
        "45,000 images for training, 5,000 for validation, 10,000 for the test; the classes have "
        "the same shares in each (split seed 3).",
        r"| lr | 0.1235 | | layers | \[8, 4\] | | norm | null |",
        "Experiment first: strategy hyperopt, 24 trials (4 completed, 20 stopped), seed 0, "
        "scheduler asha (max_t 10, reduction_factor 3).",
        "| lr | loguniform(0.001, 1) |",
        "| seed | 1 | | checkpoint sha256 | 1111",
        "| torch | 2.13.0 |",
    ):
        assert fact in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_its_code_runs(monkeypatch, dtype):
    """As it is shown, with a stand-in for the model."""
    import tuner

    seen = []
    monkeypatch.setattr(tuner, "load_model", lambda name: seen.append, raising=False)
    text = card({"input": CONFIG["input"] | {"dtype": dtype}})
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], {})
    assert (seen[0].shape, str(seen[0].dtype)) == ((2, 3, 32, 32), f"torch.{dtype}")
    assert seen[0].min() >= -2


def test_what_was_not_measured_is_not_claimed():
    text = told(card({"input": CONFIG["input"] | {"mirrored": False}}, {"test": None}))
    assert "The test split has not been measured." in text
    assert "| test |" not in text
    assert "mirror" not in text
    assert "mirror image" in told(card())
    assert "shifted" not in told(card())
    text = told(card({"input": CONFIG["input"] | {"shifted": 2}}))
    assert "They are also of each image shifted by 2 px up and left, and down and right" in text
    text = told(card(metrics={"confirmed": METRICS["confirmed"] | {"standard_error": None}}))
    assert "a mean `val_accuracy` of 0.89; the search" in text
    text = told(card(metrics={"confirmed": None}))
    assert "Confirmed" not in text


@pytest.mark.parametrize(("sha256", "weights"), [("0" * 64, "model.safetensors"), (None, "folder")])
def test_of_an_own_learner_it_says_who_rebuilds_it(sha256, weights):
    own = {"trainable": "mine:MyLearner", "model": None, "input": None, "data": None}
    text = told(card(own | {"weights_sha256": sha256}))
    assert "A model of mine:MyLearner" in text
    assert "The trainable's own class rebuilds the model" in text
    assert weights in text
    assert "load_model" not in text
    assert "What mine:MyLearner reads." in text


def test_text_of_others_is_no_markup():
    evil = "a|b\n<script>`x`](http://evil)"
    text = card({"config": {evil: evil}, "experiment": evil})
    assert "<script>" not in text.replace("\\<script", "")
    assert r"| a\|b \<script\>\`x\`\](http://evil) | a\|b" in text
    search = CONFIG["search"] | {"scheduler": None}
    assert "seed 0, no scheduler." in told(card({"search": search}))
