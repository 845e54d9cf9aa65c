import numpy as np
import pytest

from tuner.experiment.results.accuracy import (
    Accuracy,
    build_accuracy,
    build_test_accuracy,
    collect_warnings,
    describe_test,
)


def test_accuracy_within_chance_of_its_baseline_has_a_warning(snapshot):
    accuracy = Accuracy("test_accuracy", 0.9, 50, 0.34)
    assert accuracy.beats_baseline is True
    assert (accuracy.note, accuracy.warning) == ("baseline 0.34", "")
    assert not [*collect_warnings(None, accuracy)]
    accuracy = Accuracy("test_accuracy", 0.4, 50, 0.34)
    assert accuracy.beats_baseline is False
    snapshot("\n".join(collect_warnings(accuracy, None)))


def test_accuracy_of_the_best_of_many_trials_counts_the_choice():
    once, chosen = (Accuracy("val_accuracy", 0.66, 50, 0.5, among) for among in (1, 24))
    assert (once.beats_baseline, chosen.beats_baseline) == (True, False)
    assert chosen.warning.endswith(", counted as the best of 24 trials.")


def best_and_default(best, default, *, images=360, among=24):
    known = build_accuracy(
        "val_accuracy", {"val_accuracy": default}, {"images": images}
    )
    return Accuracy("val_accuracy", best, images, None, among, known)


def test_best_within_chance_of_the_default_config_has_a_sentence(snapshot):
    accuracy = best_and_default(0.92, 0.9)
    snapshot("\n".join(collect_warnings(accuracy)))
    shown = accuracy.as_dict()
    assert (shown["default"], shown["gain_interval"]) == (0.9, list(accuracy.gain))
    better = best_and_default(0.98, 0.9)
    assert (better.no_gain, "default" in better.as_dict()) == ("", False)


def test_best_of_equal_configs_is_better_than_the_default_in_few_searches():
    rng = np.random.default_rng(0)
    right = rng.binomial(360, 0.9, (1000, 24)) / 360
    best = [best_and_default(row.max(), row[0]) for row in right]
    assert np.mean([accuracy.gain[0] > 0 for accuracy in best]) <= 0.05
    better = [
        best_and_default(rng.binomial(360, 0.98) / 360, row[0]) for row in right[:200]
    ]
    assert np.mean([accuracy.gain[0] > 0 for accuracy in better]) > 0.8


@pytest.mark.parametrize(
    "images",
    [None, [], {}, {"baseline": 0.5}, {"images": 0}, {"images": "9"}, {"images": 9.0}],
)
def test_accuracy_of_unknown_images_is_none(images):
    assert build_accuracy("val_accuracy", {"val_accuracy": 0.5}, images) is None


def test_with_interval_without_a_baseline():
    measured = {"test_accuracy": 0.4, "images": 50}
    shown = describe_test(measured)
    assert shown["test_accuracy_interval"] == pytest.approx(
        [0.27605, 0.53820], abs=1e-4
    )
    assert (shown["images"], shown["baseline"], shown["beats_baseline"]) == (
        50,
        None,
        None,
    )
    accuracy = build_test_accuracy(measured)
    assert (accuracy.note, accuracy.warning) == ("", "")
