"""The findings on a user's own images."""

import pytest
from recorded import losses, record

from tuner.reporting.advice import advise

PHOTOS = {"dataset": "folder:/my photos", "model": "cnn", "image_size": 64}
TUNED = {**PHOTOS, "model": "efficientnet_lite0", "pretrained": True, "image_size": 128}
DOUBTED = {
    "file": "a.jpg",
    "label": "freshfish",
    "suggested": "fish",
    "probability": 0.9,
}
CONFUSION = {"classes": ["fish", "rice"], "matrix": [[90, 0], [9, 1]]}
EXAMINED = {
    "test_accuracy": 0.91,
    "images": 100,
    "confusion": CONFUSION,
    "doubtful_labels": [{**DOUBTED, "label": "rice"}, DOUBTED, DOUBTED],
    "doubtful_share": 0.5,
    "learning_curve": [
        {"images": 83, "errors": 0.36},
        {"images": 166, "errors": 0.3},
        {"images": 331, "errors": 0.25, "gain": [0.02, 0.08]},
    ],
}


def search(training=TUNED, test=None, trials=2, **fields):
    return record(
        lambda u_D, rng: losses(1.0),
        trials,
        trainable="tuner.vision.image_classifier:ImageClassifier",
        training=training,
        test=test,
        search={"strategy": "random", "space": {"lr": "loguniform(0.001, 0.1)"}},
        **fields,
    )


def kinds(made):
    return {finding.kind: finding for finding in advise(made)}


def test_advice_on_photos(snapshot):
    findings = advise(search(test=EXAMINED, validation={"copies": 40, "measured": 100}))
    snapshot(repr(findings))


def test_findings_on_images_come_before_those_on_hyperparameters():
    made = search(test=EXAMINED, tested=("00000", "00001"))
    ordered = [finding.kind for finding in advise(made)]
    assert ordered[-1] == "test_reused"  # the only one that is high
    assert len(ordered) == 5


def test_few_trials_are_enough_for_photos():
    assert "few_trials" not in kinds(search())
    assert "few_trials" in kinds(search({"dataset": "digits", "model": "cnn"}))


@pytest.mark.parametrize("setting", [{"pretrained": True}, {"start_from": "/model"}])
def test_photos_without_pretrained_weights(setting):
    command = kinds(search(PHOTOS))["random_weights"].command
    assert command.startswith(
        "tuner run 'folder:/my photos' training.model=efficientnet_lite0 "
    )
    assert "random_weights" not in kinds(search({**PHOTOS, **setting}))
    assert "random_weights" not in kinds(search({**PHOTOS, "image_size": 16}))
    assert (
        "tuner run --like"
        in kinds(search({**PHOTOS, "dataset": "m:f"}))["random_weights"].command
    )


@pytest.mark.parametrize("size", [None, 224, 320])
def test_photos_of_enough_pixels(size):
    assert "few_pixels" in kinds(search())
    assert "few_pixels" not in kinds(search({**TUNED, "image_size": size}))


def test_labels_are_not_doubted_where_heads_are_often_wrong():
    assert kinds(search(test=EXAMINED))["doubtful_labels"].figures["n"] == 3
    assert "doubtful_labels" not in kinds(
        search(test={**EXAMINED, "doubtful_share": 0.2})
    )


def test_uneven_classes_need_no_advice_if_the_objective_weighs_them_alike():
    objective = {"metric": "val_balanced_accuracy"}
    training = {**TUNED, "metrics": ["balanced_accuracy"]}
    metrics = [{"val_balanced_accuracy": 0.5, "val_loss": 1.0}] * 8
    made = record(
        lambda u_D, rng: metrics,
        2,
        trainable="tuner.vision.image_classifier:ImageClassifier",
        training=training,
        test=EXAMINED,
        objective=objective,
    )
    assert "uneven_classes" not in kinds(made)
    assert "uneven_classes" in kinds(search(test=EXAMINED))


def test_uneven_classes_of_fitted_heads_need_images():
    heads = kinds(search({**TUNED, "train_layers": "head"}, test=EXAMINED))[
        "uneven_classes"
    ]
    assert heads.command == "tuner evaluate digits"


def curve(*errors, gain=(0.02, 0.08)):
    entries = [{"images": 80 * 2**i, "errors": each} for i, each in enumerate(errors)]
    entries[-1]["gain"] = list(gain)
    return {"learning_curve": entries}


def test_more_images_save_what_a_power_law_says():
    saved = kinds(search(test=curve(0.4, 0.3, 0.225)))["few_images"].figures["saved"]
    assert saved == pytest.approx(0.25)


@pytest.mark.parametrize(
    "test",
    [
        curve(0.4, 0.3, 0.225, gain=(-0.01, 0.2)),
        curve(0.4, 0.39, 0.38),
        curve(0.0, 0.0, 0.0),
        {"learning_curve": []},
        {"learning_curve": [1, 2, 3]},
        {"learning_curve": "none"},
    ],
)
def test_more_images_are_not_advised_without_evidence(test):
    assert "few_images" not in kinds(search(test=test))


@pytest.mark.parametrize(
    ("copies", "severity"), [(15, None), (40, "medium"), (200, "high")]
)
def test_copies_across_splits_are_named_if_there_are_many(copies, severity):
    counted = {"copies": copies, "measured": 1000}
    finding = kinds(search(validation=counted)).get("copies")
    assert (finding and finding.severity) == severity
    assert not finding or finding.command.startswith("find '/my photos' -type f ")
