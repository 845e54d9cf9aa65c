"""The accuracy of each class in a record of the test split."""

import pytest

from tuner.experiment.results.classes import class_accuracies, class_lines, confusion_in

CATS = {
    "confusion": {
        "classes": ["cat", "dog", "none", "owl"],
        "matrix": [[8, 1, 0, 1], [4, 5, 0, 1], [0, 0, 0, 0], [0, 0, 0, 10]],
    }
}


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
