"""What is recorded of a measured split beside its metrics.

The recall of each class follows from `confusion`: {"classes": names, "matrix": rows}, whose rows
are true classes, and columns predicted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from tuner.experiment.results.statistics import wilson
from tuner.wording import clean_text, format_rows

CONFUSION = "confusion"
MISTAKES = "mistakes"
DOUBTFUL_LABELS = "doubtful_labels"
DOUBTFUL_SHARE = "doubtful_share"
LEARNING_CURVE = "learning_curve"
# What a record may have beside metrics
DETAILS: dict[str, type] = {
    CONFUSION: dict,
    MISTAKES: list,
    DOUBTFUL_LABELS: list,
    DOUBTFUL_SHARE: float,
    LEARNING_CURVE: list,
}
MOST = 100  # classes of a matrix that is recorded
UNEVEN = 3.0  # times as many images in the largest class as in the smallest
_SHOWN = 20  # classes in a text
_LEAST_DOUBTFUL = 0.25  # of the labels for which heads name another class


@dataclass(frozen=True, slots=True)
class ClassRecall:
    """How many of a class's `images` are `right`; `mistaken` of them are taken for `other`."""

    name: str
    images: int
    right: int
    other: str
    mistaken: int

    @property
    def recall(self) -> float:
        return self.right / self.images

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 % confidence (Wilson), for the recall on further images of the class."""
        return wilson(self.recall, self.images)


def read_confusion(
    measured: Mapping[str, Any] | None,
) -> tuple[list[str], list[list[int]]] | None:
    """(names, matrix) of a record, which may be someone else's; None if it has no valid one."""
    match (measured or {}).get(CONFUSION):
        case {"classes": list(names), "matrix": list(matrix)} if len(names) == len(
            matrix
        ):
            are_rows = all(
                isinstance(row, list) and len(row) == len(names) for row in matrix
            )
            if are_rows and all(
                type(n) is int and n >= 0 for row in matrix for n in row
            ):
                return [*map(str, names)], matrix
    return None


def compute_class_recalls(measured: Mapping[str, Any] | None) -> list[ClassRecall]:
    """Of each class with images in the record, the least recall first."""
    if (confusion := read_confusion(measured)) is None:
        return []
    names, matrix = confusion
    rows = []
    for true, (name, row) in enumerate(zip(names, matrix, strict=True)):
        others = [(count, -other) for other, count in enumerate(row) if other != true]
        mistaken, other = max(others, default=(0, 0))
        if sum(row):
            rows.append(ClassRecall(name, sum(row), row[true], names[-other], mistaken))
    return sorted(rows, key=lambda row: row.recall)


def compute_macro_recall(measured: Mapping[str, Any] | None) -> float | None:
    """The mean of the recalls of a record's classes, or None where these are even or unknown.

    The accuracy of uneven classes is nearly that of the largest ones.
    """
    rows = compute_class_recalls(measured)
    sizes = [row.images for row in rows]
    if len(rows) < 2 or max(sizes) <= UNEVEN * min(sizes):
        return None
    return fsum(row.recall for row in rows) / len(rows)


CLASS_HEAD = ["class", "recall", "95 % interval", "images", "most frequent mistake"]


def build_class_table(measured: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """The recall of each class with its interval as rows of text, the least recall first."""
    return [
        (
            clean_text(row.name),
            f"{row.recall:.2f}",
            "{:.2f} to {:.2f}".format(*row.interval),
            f"{row.images:,}",
            f"{row.mistaken:,} taken for {clean_text(row.other)}"
            if row.mistaken
            else "",
        )
        for row in compute_class_recalls(measured)
    ]


def format_class_recalls(measured: Mapping[str, Any] | None) -> Iterator[str]:
    """The recall of each class as aligned text, the least recall first."""
    rows = build_class_table(measured)
    yield from format_rows(
        [
            (name, recall, f"({interval})", f"of {images}", mistaken)
            for name, recall, interval, images, mistaken in rows[:_SHOWN]
        ]
    )
    if len(rows) > _SHOWN:
        yield f"and {len(rows) - _SHOWN} classes with a greater recall"


def count_doubtful_pairs(measured: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    """("label / likelier class", how many labels of a record are doubtful so), the most first.

    Empty where the heads that judge are seldom sure of another class than the label: they rather
    show which classes look alike. A record may be someone else's.
    """
    record = measured or {}
    entries = record.get(DOUBTFUL_LABELS)
    if (
        not isinstance(entries, list)
        or record.get(DOUBTFUL_SHARE, 1.0) < _LEAST_DOUBTFUL
    ):
        return []
    listed = [entry for entry in entries if isinstance(entry, dict)]
    return Counter(
        f"{e.get('label')} / {e.get('suggested')}" for e in listed
    ).most_common()
