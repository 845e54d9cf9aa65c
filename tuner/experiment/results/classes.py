"""The accuracy of each class, from a record's `confusion`: {"classes": names, "matrix": rows}.

Rows are true classes, columns predicted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.experiment.results.statistics import wilson
from tuner.wording import aligned, printable

CONFUSION, MISTAKES, DOUBTFUL_LABELS = "confusion", "mistakes", "doubtful_labels"
# What a record may have beside metrics
DETAILS: dict[str, type] = {CONFUSION: dict, MISTAKES: list, DOUBTFUL_LABELS: list}
MOST = 100  # classes of a matrix that is recorded
_SHOWN = 20  # classes in a text


@dataclass(frozen=True, slots=True)
class ClassAccuracy:
    """How many of a class's `images` are `right`; `mistaken` of them are taken for `other`."""

    name: str
    images: int
    right: int
    other: str
    mistaken: int

    @property
    def accuracy(self) -> float:
        """The share that is right, from 0 to 1."""
        return self.right / self.images

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 % confidence (Wilson), for the accuracy on further images of the class."""
        return wilson(self.accuracy, self.images)


def confusion_in(measured: Mapping[str, Any] | None) -> tuple[list[str], list[list[int]]] | None:
    """(names, matrix) of a record, which may be someone else's; None if it has no valid one."""
    confusion = (measured or {}).get(CONFUSION)
    names, matrix = (
        (confusion.get("classes"), confusion.get("matrix"))
        if isinstance(confusion, Mapping)
        else (None, None)
    )
    if not isinstance(names, list) or not isinstance(matrix, list) or len(names) != len(matrix):
        return None
    for row in matrix:
        if not isinstance(row, list) or len(row) != len(names):
            return None
        if not all(type(count) is int and count >= 0 for count in row):
            return None
    return [str(name) for name in names], matrix


def class_accuracies(measured: Mapping[str, Any] | None) -> list[ClassAccuracy]:
    """Of each class with images in the record, the least accurate first."""
    if (confusion := confusion_in(measured)) is None:
        return []
    names, matrix = confusion
    rows = []
    for true, (name, row) in enumerate(zip(names, matrix, strict=True)):
        others = [(count, -other) for other, count in enumerate(row) if other != true]
        mistaken, other = max(others, default=(0, 0))
        if sum(row):
            rows.append(ClassAccuracy(name, sum(row), row[true], names[-other], mistaken))
    return sorted(rows, key=lambda row: row.accuracy)


def class_lines(measured: Mapping[str, Any] | None) -> Iterator[str]:
    """The accuracy of each class as aligned text, the least accurate first."""
    rows = class_accuracies(measured)
    cells = [
        (
            printable(row.name),
            f"{row.accuracy:.2f}",
            "({:.2f} to {:.2f})".format(*row.interval),
            f"of {row.images:,}",
            f"{row.mistaken:,} taken for {printable(row.other)}" if row.mistaken else "",
        )
        for row in rows[:_SHOWN]
    ]
    yield from aligned(cells)
    if len(rows) > _SHOWN:
        yield f"and {len(rows) - _SHOWN} more accurate classes"
