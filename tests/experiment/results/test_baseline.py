"""Accuracies beside what always naming the largest class would give."""

import pytest

from tuner.experiment.results.baseline import (
    Accuracy,
    accuracy_of,
    measured_accuracy,
    warnings_of,
    with_interval,
)


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
