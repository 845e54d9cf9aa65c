"""What a figure is, and how all of them look."""

from __future__ import annotations

import html
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import plotly.graph_objects as go

from tuner.reporting.study import quiet_optuna
from tuner.wording import printable

# Okabe and Ito, "Color Universal Design" (2008): told apart by colour-blind readers, too
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
SCALE = "Cividis"  # Nunez et al., PLOS ONE 2018: the same order for every kind of sight

_HEIGHT = 380
_T = TypeVar("_T")
_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Figure:
    """One message, drawn.

    name: unique on its page. says: one sentence or two on what to read in it. plot: None where
    there is nothing to show; `says` then tells why.
    """

    name: str
    title: str
    says: str
    plot: go.Figure | None = None


def drawn(
    name: str,
    title: str,
    draw: Callable[_P, tuple[str, go.Figure | None]],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Figure:
    """The figure of what `draw`, called with the rest, says and plots.

    A library that fails on an odd experiment costs that figure, not the report: the figure and a
    warning of the log say what happened.
    """
    try:
        with quiet_optuna():
            says, plot = draw(*args, **kwargs)
    except Exception as error:
        told = f"{type(error).__name__}: {printable(str(error))}"
        logging.getLogger("tuner").warning("the figure %r cannot be drawn: %s", title, told)
        return Figure(name, title, f"It cannot be drawn: {told}")
    return Figure(name, title, says, styled(plot) if plot is not None else None)


def styled(plot: go.Figure) -> go.Figure:
    """`plot` in the style of the page: no title of its own, little margin, our colours."""
    plot.update_layout(
        template="plotly_white",
        title={"text": ""},
        height=plot.layout.height or _HEIGHT,
        margin={"l": 70, "r": 20, "t": 20, "b": 55},
        colorway=COLOURS,
        font={"family": "system-ui, sans-serif", "size": 13},
        hoverlabel={"namelength": -1},
    )
    plot.update_xaxes(automargin=True, exponentformat="e")
    plot.update_yaxes(automargin=True, exponentformat="e")
    return plot


def time_axis(span_s: float) -> tuple[str, float]:
    """(unit, its seconds) in which a time of `span_s` seconds is best read on an axis."""
    if span_s < 300:
        return "seconds", 1.0
    return ("minutes", 60.0) if span_s < 4 * 3600 else ("hours", 3600.0)


def text(value: object) -> str:
    """`value` as text that a figure shows as it is: Plotly reads tags and entities in labels."""
    return html.escape(printable(str(value)), quote=False)


def evenly(items: Sequence[_T], most: int) -> list[_T]:
    """At most `most` of `items` (1 or more), spread evenly, the first and the last among them.

    >>> evenly(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def leading(items: Sequence[_T], most: int) -> list[_T]:
    """At most `most` of `items`, the best one first: the first half whole, the others evenly."""
    if len(items) <= most:
        return list(items)
    first = most // 2
    return [*items[:first], *evenly(items[first:], most - first)]
