"""The figures of the HTML pages and of the page of `tuner serve`, by section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Literal

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.figures.best import (
    By,
    epochs,
    front,
    history,
    leaders,
    times,
    volume,
)
from tuner.reporting.figures.data import FigureData
from tuner.reporting.figures.figure import Figure, drawn
from tuner.reporting.figures.hyperparameters import contours, importance, parallel, slices
from tuner.reporting.figures.images import confusion
from tuner.reporting.figures.stopping import beside, curves, rungs, slots
from tuner.reporting.importance import FEWEST

Section = Literal["best", "hyperparameters", "stopping"]
_MOST_SLICES = 8
_PAIRED = 3  # hyperparameters, and so many pairs of them


def draw_section(
    section: Section, data: FigureData, *, by: By | None = None, metric: str | None = None
) -> list[Figure]:
    """The figures of a section, in order.

    by: the order of the best so far; None: all three. metric: that of the curves; None: the
    objective's.
    """
    return [figure for figure in _figures(section, data, by, metric) if figure]


def draw_comparison(comparison: Comparison) -> list[Figure]:
    figures = [
        drawn("epochs", "Best so far by epochs", epochs, comparison),
        drawn("times", "Best so far by time", times, comparison, half=True),
        drawn("leaders", "Learning curves of the best trials", leaders, comparison, half=True),
    ]
    return [figure for figure in figures if figure]


def draw_confusion(measured: Mapping[str, Any] | None) -> Figure | None:
    """The classes of a test's record; None if it has none."""
    return drawn("confusion", "Classes taken for each other", confusion, measured)


def draw_trial(data: FigureData, trial_id: str, metric: str | None) -> Figure:
    """The reports of a trial beside others'. metric: None for the objective's."""
    figure = drawn("reports", "Reports", beside, data, trial_id, metric)
    assert figure is not None  # it says why it is empty
    return figure


def _figures(
    section: Section, data: FigureData, by: By | None, metric: str | None
) -> Iterator[Figure | None]:
    match section:
        case "best":
            yield drawn("history", "Best so far", history, data, by or "trial")
            if by is None:
                by_epochs = "Best so far by epochs"
                yield drawn("history-epochs", by_epochs, history, data, "epochs", half=True)
                yield drawn("history-time", "Best so far by time", history, data, "time", half=True)
            yield drawn("front", "Front of the objectives", front, data, half=True)
            yield drawn("volume", "Hypervolume of the front", volume, data, half=True)
        case "hyperparameters" if why := data.explain_lack(FEWEST):
            title = "Importance, slices and contours"
            yield Figure("hyperparameters", title, why, None, half=False)
            if not data.explain_lack():
                yield drawn("parallel", "Parallel coordinates", parallel, data)
        case "hyperparameters":
            yield drawn("importance", "Importance", importance, data)
            yield drawn("parallel", "Parallel coordinates", parallel, data)
            names = data.names_by_importance
            for i, name in enumerate(names[:_MOST_SLICES]):
                yield drawn(f"slice-{i}", f"Slice: {name}", slices, data, name, half=True)
            for i, pair in enumerate(combinations(names[:_PAIRED], 2)):
                title = f"Contour: {' and '.join(pair)}"
                yield drawn(f"contour-{i}", title, contours, data, pair, half=True)
        case "stopping":
            yield drawn("curves", "Learning curves", curves, data, metric)
            yield drawn("rungs", "Who went on at each rung", rungs, data, half=True)
            yield drawn("slots", "Trials at a time", slots, data, half=True)
