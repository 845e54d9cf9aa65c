"""Accuracies beside what always naming the largest class would give."""

import numpy as np
import pytest

from tuner.experiment.results.accuracy import (
    Accuracy,
    accuracy_of,
    class_accuracies,
    class_lines,
    confusion_in,
    measured_accuracy,
    warnings_of,
    with_interval,
)

CATS = {
    "confusion": {
        "classes": ["cat", "dog", "none", "owl"],
        "matrix": [[8, 1, 0, 1], [4, 5, 0, 1], [0, 0, 0, 0], [0, 0, 0, 10]],
    }
}


def test_accuracy_that_beats_its_baseline_has_no_warning():
    accuracy = Accuracy("test_accuracy", 0.9, 50, 0.34)
    assert accuracy.beats_baseline is True
    assert (accuracy.note, accuracy.warning) == ("baseline 0.34", "")
    assert not [*warnings_of(None, accuracy)]


def test_accuracy_within_chance_of_its_baseline_has_a_warning():
    accuracy = Accuracy("test_accuracy", 0.4, 50, 0.34)
    assert accuracy.beats_baseline is False
    assert [*warnings_of(accuracy, None)] == [
        "test_accuracy 0.4 does not beat the baseline beyond chance: always naming the largest "
        "class gives 0.34, and the 95 % interval over 50 images is 0.2761 to 0.5382."
    ]


def test_accuracy_of_the_best_of_many_trials_counts_the_choice():
    once, chosen = (Accuracy("val_accuracy", 0.66, 50, 0.5, among) for among in (1, 24))
    assert (once.beats_baseline, chosen.beats_baseline) == (True, False)
    assert chosen.warning.endswith(", counted as the best of 24 trials.")


def best_and_default(best, default, *, images=360, among=24):
    known = accuracy_of("val_accuracy", {"val_accuracy": default}, {"images": images})
    return Accuracy("val_accuracy", best, images, None, among, known)


def test_best_within_chance_of_the_default_config_has_a_sentence():
    accuracy = best_and_default(0.92, 0.9)
    assert [*warnings_of(accuracy)] == [
        "val_accuracy 0.92 is no better than the default config (trial 00000, 0.9) beyond chance: "
        "the 95 % interval of the difference over 360 images is -0.04155 to 0.06899."
    ]
    shown = accuracy.as_dict()
    assert (shown["default"], shown["gain_interval"]) == (0.9, list(accuracy.gain))
    better = best_and_default(0.98, 0.9)
    assert (better.no_gain, "default" in better.as_dict()) == ("", False)


def test_best_of_equal_configs_is_better_than_the_default_in_few_searches():
    rng = np.random.default_rng(0)
    right = rng.binomial(360, 0.9, (1000, 24)) / 360
    best = [best_and_default(row.max(), row[0]) for row in right]
    assert np.mean([accuracy.gain[0] > 0 for accuracy in best]) <= 0.05
    better = [best_and_default(rng.binomial(360, 0.98) / 360, row[0]) for row in right[:200]]
    assert np.mean([accuracy.gain[0] > 0 for accuracy in better]) > 0.8


@pytest.mark.parametrize(
    "images", [None, [], {}, {"baseline": 0.5}, {"images": 0}, {"images": "9"}, {"images": 9.0}]
)
def test_accuracy_of_unknown_images_is_none(images):
    assert accuracy_of("val_accuracy", {"val_accuracy": 0.5}, images) is None


def test_with_interval_without_a_baseline():
    measured = {"test_accuracy": 0.4, "images": 50}
    shown = with_interval(measured)
    assert shown["test_accuracy_interval"] == pytest.approx([0.27605, 0.53820], abs=1e-4)
    assert (shown["images"], shown["baseline"], shown["beats_baseline"]) == (50, None, None)
    accuracy = measured_accuracy(measured)
    assert (accuracy.note, accuracy.warning) == ("", "")


def test_class_accuracies_are_the_least_accurate_first():
    rows = class_accuracies(CATS)
    assert [(row.name, row.images, row.accuracy) for row in rows] == [
        ("dog", 10, 0.5),
        ("cat", 10, 0.8),
        ("owl", 10, 1.0),
    ]
    assert (rows[0].other, rows[0].mistaken) == ("cat", 4)
    assert rows[1].other == "dog"
    low, high = rows[0].interval
    assert low < 0.5 < high


def test_class_lines_name_the_class_that_is_confused_most():
    first, *_, last = class_lines(CATS)
    assert " ".join(first.split()) == "dog 0.50 (0.24 to 0.76) of 10 4 taken for cat"
    assert "taken" not in last


@pytest.mark.parametrize(
    "confusion",
    [
        None,
        7,
        {"classes": ["a"]},
        {"classes": ["a", "b"], "matrix": [[1, 2]]},
        {"classes": ["a"], "matrix": [[-1]]},
        {"classes": ["a"], "matrix": [["1"]]},
        {"classes": ["a"], "matrix": [1]},
    ],
)
def test_confusion_in_an_invalid_record_is_none(confusion):
    assert confusion_in({"confusion": confusion}) is None
    assert class_accuracies({"confusion": confusion}) == []
