"""Declares, finds and draws the figures of the pages, in one style.

A module of this package without a leading underscore has figures: functions with the decorator
`figure`. The page shows them; no other file needs to change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple, TypeVar

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

Section = Literal["best", "hyperparameters", "stopping", "comparison"]
# The caption, and the plot unless it is empty; None if the page does without the figure
Drawing = tuple[str, go.Figure | None] | None


class Variant(NamedTuple):
    """One of several figures of a function, which is called with this `argument`."""

    name: str
    title: str
    argument: Any


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


_Draw = TypeVar("_Draw", bound=Callable[..., Drawing])
_DECLARED: list[
    tuple[Section, tuple[bool, int, str], Callable[[Any], Iterator[Figure | None]]]
] = []


def figure(
    title: str,
    *,
    section: Section,
    order: int,
    half: bool = False,
    variants: Callable[[Any], Iterable[Variant]] | None = None,
) -> Callable[[_Draw], _Draw]:
    """Declare the decorated function as a figure of the report, named after the function.

    It is called with the Report (in the section "comparison" with the Comparison), and returns None
    if the page does without the figure. order: its position in the section, among the figures of
    its width; half: half as wide as the page, below the wide ones. With `variants` there is a
    figure for each of them.
    """

    def declare(draw: _Draw) -> _Draw:
        name = draw.__name__

        def figures(subject: Any) -> Iterator[Figure | None]:
            if variants is None:
                yield _drawn(name, title, half, draw, subject)
                return
            for variant in variants(subject):
                yield _drawn(variant.name, variant.title, half, draw, subject, variant.argument)

        _DECLARED.append((section, (half, order, name), figures))
        return draw

    return declare


def _drawn(
    name: str, title: str, half: bool, draw: Callable[..., Drawing], *arguments: Any
) -> Figure | None:
    """Draw. If a library fails on an unusual experiment, the caption and a warning say so."""
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


def draw_section(section: Section, subject: Any) -> list[Figure]:
    """The figures of a section of the page on `subject`, in order."""
    for module in iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            import_module(f"{__package__}.{module.name}")
    declared = sorted((d for d in _DECLARED if d[0] == section), key=lambda d: d[1])
    return [drawn for _, _, figures in declared for drawn in figures(subject) if drawn]


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
