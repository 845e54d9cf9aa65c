"""A figure of the HTML pages, and the style that all have."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from tuner.reporting.optuna_study import quiet_optuna
from tuner.wording import printable

# Okabe and Ito, "Color Universal Design" (2008): colour-blind readers can distinguish them, too
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK, GREY = "#56B4E9", "#CC79A7", "#000000", "#999999"
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

# The caption, and the plot unless it is empty; None if the page does without the figure
Drawing = tuple[str, go.Figure | None] | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a page, under a unique `name`.

    caption: one or two sentences on how to read it, or why plot is None. half: half as wide as the
    page.
    """

    name: str
    title: str
    caption: str
    plot: go.Figure | None
    half: bool


def drawn(
    name: str, title: str, draw: Callable[..., Drawing], *arguments: Any, half: bool = False
) -> Figure | None:
    """The figure of a function. If a library fails on an unusual experiment, its caption says so.

    None if the page does without it.
    """
    try:
        with quiet_optuna():
            drawing = draw(*arguments)
        if drawing is None:
            return None
        caption, plot = drawing
        return Figure(name, title, caption, None if plot is None else styled(plot), half)
    except Exception as error:
        reason = f"{type(error).__name__}: {printable(str(error))}"
        logging.getLogger("tuner").warning("the figure %r cannot be drawn: %s", title, reason)
        return Figure(name, title, f"It cannot be drawn: {reason}", None, half)


def count_axis(title: str, *, most: float) -> dict[str, Any]:
    """An axis of whole numbers up to `most`; Plotly alone puts fractions between few of them."""
    axis: dict[str, Any] = {"title": title}
    if most <= _MOST_TICKS:
        axis["dtick"] = 1
    return axis


def styled(plot: go.Figure) -> go.Figure:
    """`plot` in the style of the page: without a title, with little margin, in our colours."""
    plot.update_layout(
        template="plotly_white",
        title={"text": ""},
        height=plot.layout.height or _HEIGHT,
        margin={"l": 70, "r": 20, "t": 20, "b": 55},
        colorway=COLOURS,
        font={"family": "system-ui, sans-serif", "size": 13},
        hoverlabel={"namelength": -1},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    plot.update_xaxes(automargin=True, exponentformat="e")
    plot.update_yaxes(automargin=True, exponentformat="e")
    return plot
