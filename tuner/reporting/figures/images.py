"""The figure of which classes of images a model takes for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.experiment.results.split_details import read_confusion
from tuner.reporting.figures.figure import (
    Drawing,
    build_plot,
    build_plot_axis,
    escape_text,
)
from tuner.wording import shorten

_MOST_CLASSES = 100
_MOST_NUMBERED = 30  # classes, whose cells have room for a number
_LONGEST_LABEL = 24  # characters
# On a page of any colour
_SHADES = [[0, "rgba(0, 114, 178, 0)"], [1, "rgba(0, 114, 178, 1)"]]


def draw_confusion_matrix(measured: Mapping[str, Any] | None) -> Drawing:
    """The images of each class by the class that the model gives them; shades are shares of a row.

    measured: the record of a test, which may be someone else's.
    """
    found = read_confusion(measured)
    if found is None:
        return None
    classes, counts = found
    if len(classes) > _MOST_CLASSES:
        reason = f"there are {len(classes)} classes, and at most {_MOST_CLASSES} can be read."
        return f"Nothing to show: {reason}", None
    names = [escape_text(name) for name in classes]
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    trace = {
        "type": "heatmap",
        "z": shares,
        "text": [[str(count) if count else "" for count in row] for row in counts],
        "texttemplate": "%{text}" if len(names) <= _MOST_NUMBERED else "",
        "hovertext": [
            [
                f"{name}: {n} of {sum(row)} as {other}"
                for n, other in zip(row, names, strict=True)
            ]
            for name, row in zip(names, counts, strict=True)
        ],
        "hoverinfo": "text",
        "colorscale": _SHADES,
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }
    labels = [escape_text(shorten(name, _LONGEST_LABEL)) for name in classes]
    ticks = {"tickvals": [*range(len(names))], "ticktext": labels}
    plot = build_plot(
        [trace],
        x=build_plot_axis("class that the model gives", **ticks, tickangle=-45),
        y=build_plot_axis("class of the image", **ticks, autorange="reversed"),
        height=max(300, 120 + 22 * len(names)),
    )
    return "Images of each row's class by the class that the model gives them.", plot
