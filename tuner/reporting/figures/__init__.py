"""The figures of the HTML pages and of the page of `tuner serve`, by section."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Literal

from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.results import Results
from tuner.plugins import FIGURES
from tuner.reporting.figures.best import (
    By,
    draw_best_by_epochs,
    draw_best_by_time,
    draw_front,
    draw_history,
    draw_hypervolume,
    draw_leaders,
)
from tuner.reporting.figures.data import FigureData
from tuner.reporting.figures.figure import Drawing, Figure, build_figure
from tuner.reporting.figures.hyperparameters import (
    draw_contour,
    draw_importance,
    draw_parallel_coordinates,
    draw_slice,
)
from tuner.reporting.figures.images import draw_confusion_matrix
from tuner.reporting.figures.stopping import (
    draw_learning_curves,
    draw_rung_counts,
    draw_slots,
    draw_trial_curve,
)
from tuner.reporting.importance import FEWEST

Section = Literal["best", "hyperparameters", "stopping"]
_MOST_SLICES = 8
_PAIRED = 3  # hyperparameters, and so many pairs of them


def draw_section(
    section: Section,
    data: FigureData,
    *,
    by: By | None = None,
    metric: str | None = None,
) -> list[Figure]:
    """The figures of a section, in order.

    by: the order of the best so far; None: all three. metric: that of the curves; None: the
    objective's.
    """
    return [figure for figure in _draw_figures(section, data, by, metric) if figure]


def draw_comparison(comparison: Comparison) -> list[Figure]:
    figures = [
        build_figure(
            "epochs", "Best so far by epochs", draw_best_by_epochs, comparison
        ),
        build_figure(
            "times", "Best so far by time", draw_best_by_time, comparison, half=True
        ),
        build_figure(
            "leaders",
            "Learning curves of the best trials",
            draw_leaders,
            comparison,
            half=True,
        ),
    ]
    return [figure for figure in figures if figure]


def draw_confusion(measured: Mapping[str, Any] | None) -> Figure | None:
    """The classes of a test's record; None if it has none."""
    return build_figure(
        "confusion", "Classes taken for each other", draw_confusion_matrix, measured
    )


def draw_plugins(results: Results) -> list[Figure]:
    """The figures of installed packages."""
    figures = (
        build_figure(
            f"plugin-{name}", FIGURES.describe(name), _draw_plugin, name, results
        )
        for name in FIGURES.list_names()
    )
    return [figure for figure in figures if figure]


def _draw_plugin(name: str, results: Results) -> Drawing:
    from plotly.io import to_json

    drawing = FIGURES.load(name)(results)
    if drawing is None:
        return None
    caption, plot = drawing
    # A dict or a plotly figure, which may hold NaN and arrays
    return caption, plot and json.loads(to_json(plot))


def draw_trial(data: FigureData, trial_id: str, metric: str | None) -> Figure:
    """The reports of a trial beside others'. metric: None for the objective's."""
    figure = build_figure(
        "reports", "Reports", draw_trial_curve, data, trial_id, metric
    )
    assert figure is not None  # it says why it is empty
    return figure


def _draw_figures(
    section: Section, data: FigureData, by: By | None, metric: str | None
) -> Iterator[Figure | None]:
    match section:
        case "best":
            yield build_figure(
                "history", "Best so far", draw_history, data, by or "trial"
            )
            if by is None:
                by_epochs = "Best so far by epochs"
                yield build_figure(
                    "history-epochs", by_epochs, draw_history, data, "epochs", half=True
                )
                yield build_figure(
                    "history-time",
                    "Best so far by time",
                    draw_history,
                    data,
                    "time",
                    half=True,
                )
            yield build_figure(
                "front", "Front of the objectives", draw_front, data, half=True
            )
            yield build_figure(
                "volume", "Hypervolume of the front", draw_hypervolume, data, half=True
            )
        case "hyperparameters" if why := data.explain_lack(FEWEST):
            title = "Importance, slices and contours"
            yield Figure("hyperparameters", title, why, None, half=False)
            if not data.explain_lack():
                yield build_figure(
                    "parallel", "Parallel coordinates", draw_parallel_coordinates, data
                )
        case "hyperparameters":
            yield build_figure("importance", "Importance", draw_importance, data)
            yield build_figure(
                "parallel", "Parallel coordinates", draw_parallel_coordinates, data
            )
            names = data.names_by_importance
            for i, name in enumerate(names[:_MOST_SLICES]):
                yield build_figure(
                    f"slice-{i}", f"Slice: {name}", draw_slice, data, name, half=True
                )
            for i, pair in enumerate(combinations(names[:_PAIRED], 2)):
                title = f"Contour: {' and '.join(pair)}"
                yield build_figure(
                    f"contour-{i}", title, draw_contour, data, pair, half=True
                )
        case "stopping":
            yield build_figure(
                "curves", "Learning curves", draw_learning_curves, data, metric
            )
            yield build_figure(
                "rungs", "Who went on at each rung", draw_rung_counts, data, half=True
            )
            yield build_figure("slots", "Trials at a time", draw_slots, data, half=True)
