"""Means, intervals and paired differences, beside scipy's own, and that they keep their word."""

from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from tuner.experiment.results.statistics import (
    Accuracy,
    build_accuracy,
    build_test_accuracy,
    collect_warnings,
    compute_class_recalls,
    compute_differences,
    compute_macro_recall,
    compute_mean,
    describe_test,
    format_class_recalls,
    read_confusion,
    wilson,
)

numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 4))
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12)

CATS = {
    "confusion": {
        "classes": ["cat", "dog", "none", "owl"],
        "matrix": [[8, 1, 0, 1], [4, 5, 0, 1], [0, 0, 0, 0], [0, 0, 0, 10]],
    }
}


@given(st.lists(numbers, min_size=2, max_size=12).filter(lambda v: len(set(v)) > 1))
def test_mean_of_equals_scipys(values):
    result = compute_mean(values)
    error = stats.sem(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=result.mean, scale=error)
    assert result.standard_error == pytest.approx(error)
    assert (result.low, result.high) == (pytest.approx(low), pytest.approx(high))
    assert result.n == len(values)


@given(pairs.filter(lambda p: len({a - b for a, b in p}) > 1))
def test_differences_from_best_of_two_equal_scipys(values):
    first, second = ({k: pair[i] for k, pair in enumerate(values)} for i in (0, 1))
    (result,) = compute_differences([first], second)
    assume(result.sd > 1e-3)  # tied differences get the values' resolution
    test = stats.ttest_rel(list(first.values()), list(second.values()))
    interval = test.confidence_interval(0.95)
    assert (result.low, result.high) == (
        pytest.approx(interval.low, abs=1e-9),
        pytest.approx(interval.high, abs=1e-9),
    )
    if abs(test.pvalue - 0.05) > 1e-6:
        assert result.is_settled == (test.pvalue < 0.05)


def apart(values):
    """Which of the others is told apart from the best of the groups of values."""
    best, *others = (dict(enumerate(group)) for group in sorted(values, key=fmean))
    result = compute_differences(others, best)
    return [each is not None and each.is_settled for each in result]


def share_apart(drawn):
    """Of the comparisons `drawn`, groups of values each, how many tell any group apart."""
    return sum(any(apart(values)) for values in drawn.tolist()) / len(drawn)


@pytest.mark.parametrize(("groups", "keys"), [(3, 2), (3, 3), (5, 2), (10, 2), (10, 5)])
@pytest.mark.parametrize("variance_ratio", [1, 16, 100])
def test_differences_from_best_of_equal_groups_are_apart_at_most_at_the_level(
    groups, keys, variance_ratio
):
    # With a spread pooled over the groups it is up to 15 of 100
    drawn = np.random.default_rng(0).normal(size=(400, groups, keys))
    drawn[:, -1] *= variance_ratio**0.5
    assert share_apart(drawn) <= 0.05


@pytest.mark.parametrize(("groups", "keys"), [(2, 2), (5, 2), (5, 3)])
def test_differences_from_best_of_accuracies_that_tie_are_rarely_apart(groups, keys):
    # Without regard to ties 10, 41 and 9 of 100
    drawn = np.random.default_rng(0).binomial(360, 0.995, size=(400, groups, keys)) / 360
    assert share_apart(drawn) <= 0.05


def test_differences_that_tie_have_the_spread_of_their_rounding():
    """That of the difference of two values, each uniform within the resolution: 1 / 12 of it."""
    [tied] = compute_differences([{1: 0.3, 2: 0.4}], {1: 0.1, 2: 0.2})
    assert tied.sd == pytest.approx(0.1 * (2 / 12) ** 0.5)


def test_differences_from_best_use_the_shared_keys():
    best = {1: 0.10, 2: 0.12, 3: 0.11}
    short, single, none = compute_differences([{1: 0.20, 3: 0.22}, {2: 0.5}, {}], best)
    assert (short.n, single.n, none) == (2, 1, None)
    assert short.mean == pytest.approx(0.105)
    assert short.low is not None
    assert single.low is None
    assert compute_differences([{1: 0.5}], {}) == [None]
    assert apart([[0.1, 0.1], [0.2, 0.2]]) == [True]


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_scipys(counts):
    right, n = counts
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert wilson(right / n, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_of_the_best_of_several_has_sidaks_level():
    expected = stats.binomtest(30, 50).proportion_ci(0.95 ** (1 / 24), method="wilson")
    assert wilson(0.6, 50, among=24) == pytest.approx((expected.low, expected.high))


def test_accuracy_within_chance_of_its_baseline_has_a_warning():
    accuracy = Accuracy("test_accuracy", 0.9, 50, 0.34)
    assert accuracy.beats_baseline is True
    assert (accuracy.note, accuracy.warning) == ("baseline 0.34", "")
    assert not [*collect_warnings(None, accuracy)]
    accuracy = Accuracy("test_accuracy", 0.4, 50, 0.34)
    assert accuracy.beats_baseline is False
    assert [*collect_warnings(accuracy, None)] == [
        "test_accuracy 0.4 does not beat the baseline beyond chance: always naming the largest "
        "class gives 0.34, and the 95 % interval over 50 images is 0.2761 to 0.5382."
    ]


def test_accuracy_of_the_best_of_many_trials_counts_the_choice():
    once, chosen = (Accuracy("val_accuracy", 0.66, 50, 0.5, among) for among in (1, 24))
    assert (once.beats_baseline, chosen.beats_baseline) == (True, False)
    assert chosen.warning.endswith(", counted as the best of 24 trials.")


def best_and_default(best, default, *, images=360, among=24):
    known = build_accuracy("val_accuracy", {"val_accuracy": default}, {"images": images})
    return Accuracy("val_accuracy", best, images, None, among, known)


def test_best_within_chance_of_the_default_config_has_a_sentence():
    accuracy = best_and_default(0.92, 0.9)
    assert [*collect_warnings(accuracy)] == [
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
    assert build_accuracy("val_accuracy", {"val_accuracy": 0.5}, images) is None


def test_with_interval_without_a_baseline():
    measured = {"test_accuracy": 0.4, "images": 50}
    shown = describe_test(measured)
    assert shown["test_accuracy_interval"] == pytest.approx([0.27605, 0.53820], abs=1e-4)
    assert (shown["images"], shown["baseline"], shown["beats_baseline"]) == (50, None, None)
    accuracy = build_test_accuracy(measured)
    assert (accuracy.note, accuracy.warning) == ("", "")


def test_class_recalls_are_the_least_first():
    rows = compute_class_recalls(CATS)
    assert [(row.name, row.images, row.recall) for row in rows] == [
        ("dog", 10, 0.5),
        ("cat", 10, 0.8),
        ("owl", 10, 1.0),
    ]
    assert (rows[0].other, rows[0].mistaken) == ("cat", 4)
    assert rows[1].other == "dog"
    low, high = rows[0].interval
    assert low < 0.5 < high
    first, *_, last = format_class_recalls(CATS)
    assert " ".join(first.split()) == "dog 0.50 (0.24 to 0.76) of 10 4 taken for cat"
    assert "taken" not in last


@pytest.mark.parametrize(
    ("matrix", "recall"),
    [
        ([[30, 0], [5, 5]], None),  # three times as many
        ([[31, 0], [5, 5]], 0.75),
        ([[31, 0], [0, 0]], None),
    ],
)
def test_macro_recall_is_known_of_uneven_classes(matrix, recall):
    confusion = {"classes": ["cat", "dog"], "matrix": matrix}
    measured = {"test_accuracy": 0.8, "images": 40, "confusion": confusion}
    assert compute_macro_recall(measured) == recall
    assert describe_test(measured).get("macro_recall") == recall


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
    assert read_confusion({"confusion": confusion}) is None
    assert compute_class_recalls({"confusion": confusion}) == []
