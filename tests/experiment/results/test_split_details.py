import pytest

from tuner.experiment.results.accuracy import (
    describe_test,
)
from tuner.experiment.results.split_details import (
    compute_class_recalls,
    compute_macro_recall,
    format_class_recalls,
    read_confusion,
)

CATS = {
    "confusion": {
        "classes": ["cat", "dog", "none", "owl"],
        "matrix": [[8, 1, 0, 1], [4, 5, 0, 1], [0, 0, 0, 0], [0, 0, 0, 10]],
    }
}


def test_class_recalls_are_the_least_first(snapshot):
    rows = compute_class_recalls(CATS)
    assert [(row.name, row.recall, row.other) for row in rows[:2]] == [
        ("dog", 0.5, "cat"),
        ("cat", 0.8, "dog"),
    ]
    snapshot("\n".join(format_class_recalls(CATS)))


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
