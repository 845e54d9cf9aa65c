"""A figure of the pages as a description for plotly.js, and the style that all have.

A description is a plain dict with `data` and `layout`. Texts in it are `escaped`, since Plotly
reads tags and entities; captions and titles are plain text. A trace that draws trials as lines has
their ids in `meta`: pages derive the `customdata` of its points. Between two trials x is null.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from tuner.wording import clean_text

# Okabe and Ito, "Color Universal Design" (2008): colour-blind readers can distinguish them, too
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILLION = "#D55E00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
BLACK = "#000000"
GREY = "#999999"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY, BLACK)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
STATUS_COLOURS = {
    "completed": BLUE,
    "stopped": SKY,
    "failed": VERMILLION,
    "interrupted": ORANGE,
    "running": GREEN,
}

_HEIGHT = 380
_MOST_TICKS = 12  # of an axis that has one for each whole number
_WIDE = 50  # from the least to the greatest value, from which an axis is logarithmic
_DIGITS = 6  # of a number; more cannot be seen
_GRID = "#E6E9EF"

Plot = dict[str, Any]
# The caption, and the plot unless it is empty; None if the page does without the figure
Drawing = tuple[str, Plot | None] | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a page, under a unique `name`.

    caption: one or two sentences on how to read it, or why plot is None. half: half as wide as the
    page.
    """

    name: str
    title: str
    caption: str
    plot: Plot | None
    half: bool

    def as_dict(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


def build_figure(
    name: str,
    title: str,
    draw: Callable[..., Drawing],
    *arguments: Any,
    half: bool = False,
) -> Figure | None:
    """The figure of a function. If it fails on an unusual experiment, its caption says so.

    None if the page does without it.
    """
    try:
        drawing = draw(*arguments)
        if drawing is None:
            return None
        caption, plot = drawing
        return Figure(name, title, clean_text(caption), plot and add_style(plot), half)
    except Exception as error:
        reason = f"{type(error).__name__}: {clean_text(str(error))}"
        logging.getLogger("tuner").warning(
            "the figure %r cannot be drawn: %s", title, reason
        )
        return Figure(name, title, f"It cannot be drawn: {reason}", None, half)


def escape_text(text: object) -> str:
    """`text` so that a figure shows it as it is: Plotly reads tags and entities in labels."""
    return html.escape(clean_text(str(text)), quote=False)


def round_values(values: Iterable[float]) -> list[float | None]:
    """The values in few digits; None for one that JSON does not have."""
    return [
        float(f"{value:.{_DIGITS}g}") if isfinite(value) else None for value in values
    ]


def build_plot_axis(title: str, **settings: Any) -> Plot:
    return {
        "title": {"text": escape_text(title), "standoff": 8},
        "automargin": True,
        "exponentformat": "e",
        "gridcolor": _GRID,
        "zeroline": False,
        **settings,
    }


def build_count_axis(title: str, *, most: float, **settings: Any) -> Plot:
    """An axis of whole numbers up to `most`; Plotly alone puts fractions between few of them."""
    if most <= _MOST_TICKS:
        settings["dtick"] = 1
    return build_plot_axis(title, tickformat="d", **settings)


def build_value_axis(title: str, values: Sequence[float], **settings: Any) -> Plot:
    """An axis of numbers, logarithmic if they span decades."""
    is_log = bool(values) and 0 < _WIDE * min(values) < max(values)
    return build_plot_axis(title, type="log" if is_log else "linear", **settings)


def scale_time(most_s: float) -> tuple[float, Plot]:
    """The seconds of the unit in which a time up to `most_s` is read well, and the axis in it."""
    units = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    seconds, name = next((unit for unit in units if most_s >= 2 * unit[0]), units[-1])
    return seconds, build_plot_axis(f"{name} of searching", rangemode="tozero")


def build_plot(data: list[Plot], *, x: Plot, y: Plot, **layout: Any) -> Plot:
    return {"data": data, "layout": {"xaxis": x, "yaxis": y, **layout}}


def build_scatter(x: Sequence[Any], y: Sequence[Any], **settings: Any) -> Plot:
    return {"type": "scatter", "x": list(x), "y": list(y), **settings}


def add_style(plot: Plot) -> Plot:
    """`plot` in the style of the page: with little margin, in our colours."""
    style = {
        "height": _HEIGHT,
        "margin": {"l": 70, "r": 20, "t": 20, "b": 55},
        "colorway": list(COLOURS),
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "hoverlabel": {"namelength": -1},
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "paper_bgcolor": "#FFFFFF",
        "plot_bgcolor": "#FFFFFF",
    }
    return {"data": plot["data"], "layout": style | plot["layout"]}
