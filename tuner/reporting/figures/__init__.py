"""The figures of the HTML pages, by section."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Literal

from tuner.reporting.figures.best import epochs, front, history, volume
from tuner.reporting.figures.figure import Figure, drawn
from tuner.reporting.figures.hyperparameters import contours, importance, parallel, slices
from tuner.reporting.figures.stopping import curves, rungs
from tuner.reporting.report import FEWEST

Section = Literal["best", "hyperparameters", "stopping", "comparison"]
_MOST_SLICES = 8
_PAIRED = 3  # hyperparameters, and so many pairs of them


def draw_section(section: Section, subject: Any) -> list[Figure]:
    """The figures of a section on a Report, or on a Comparison, in order."""
    return [figure for figure in _figures(section, subject) if figure]


def _figures(section: Section, subject: Any) -> Iterator[Figure | None]:
    match section:
        case "best":
            yield drawn("history", "Best so far", history, subject)
            yield drawn("front", "Front of the objectives", front, subject, half=True)
            yield drawn("volume", "Hypervolume of the front", volume, subject, half=True)
        case "hyperparameters" if len(subject.ranked.trials) >= FEWEST:
            yield drawn("importance", "Importance", importance, subject)
            yield drawn("parallel", "Parallel coordinates", parallel, subject)
            names = subject.names_by_importance
            for i, name in enumerate(names[:_MOST_SLICES]):
                yield drawn(f"slice-{i}", f"Slice: {name}", slices, subject, name, half=True)
            for i, pair in enumerate(combinations(names[:_PAIRED], 2)):
                title = f"Contour: {' and '.join(pair)}"
                yield drawn(f"contour-{i}", title, contours, subject, pair, half=True)
        case "stopping":
            yield drawn("curves", "Learning curves", curves, subject)
            yield drawn("rungs", "Who went on at each rung", rungs, subject, half=True)
        case "comparison":
            yield drawn("epochs", "Best so far by epochs", epochs, subject)
