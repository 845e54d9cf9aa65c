"""The figure of searches side by side: the best so far of each strategy by its epochs."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.colors import hex_to_rgb

from tuner.experiment.results.comparison import Comparison, Curve, Side
from tuner.reporting.figures.figure import COLOURS, DASHES, Drawing
from tuner.reporting.ranked_trials import escaped, fence_of
from tuner.spec.sections import Objective
from tuner.wording import amount_of

_CAPTION = (
    "Epochs of all trials together: the training that the search took. A line is the mean over the "
    "seeds from where all have a value, and its band their range. A search that has ended keeps "
    "its best."
)
_SAMPLES = 50  # of each curve, evenly over its epochs


def epochs(comparison: Comparison) -> Drawing:
    """A line for each strategy."""
    sides = [side for side in comparison.sides if side.best]
    curves = [entrant.curve for side in sides for entrant in side.entrants]
    plot = go.Figure()
    for number, side in enumerate(sides):
        _add(plot, side, number)
    plot.update_layout(
        xaxis={"title": "epochs", "rangemode": "tozero"},
        yaxis={
            "title": escaped(comparison.objective.metric),
            "range": _range(curves, comparison.objective),
        },
        showlegend=True,
        height=420,
    )
    return _CAPTION, plot


def _add(plot: go.Figure, side: Side, number: int) -> None:
    """A strategy's mean over its seeds as a line, and its range as a band."""
    curves = [entrant.curve for entrant in side.entrants if entrant.curve.best]
    x = _steps(curves)
    values = [[value for c in curves if (value := c.at(at)) is not None] for at in x]
    colour = COLOURS[number % len(COLOURS)]
    line = {"shape": "hv", "color": colour, "width": 0}
    if len(curves) > 1:
        hidden = {"x": x, "mode": "lines", "line": line, "showlegend": False, "hoverinfo": "skip"}
        plot.add_scatter(y=[min(v) for v in values], **hidden)
        pale = f"rgba{(*hex_to_rgb(colour), 0.15)}"
        plot.add_scatter(y=[max(v) for v in values], fill="tonexty", fillcolor=pale, **hidden)
    plot.add_scatter(
        x=x,
        y=[sum(v) / len(v) for v in values],
        mode="lines",
        line={**line, "width": 2.5, "dash": DASHES[number % len(DASHES)]},
        name=f"{escaped(side.label)} ({amount_of(len(side.entrants), 'seed')})",
        hovertemplate=f"{escaped(side.label)}: %{{y:.4g}} at %{{x:.4g}}<extra></extra>",
    )


def _range(curves: Sequence[Curve], objective: Objective) -> list[float] | None:
    """What the axis spans where a few values, as the first ones, lie far out; None elsewhere."""
    samples = [(curve, curve.total * i / _SAMPLES) for curve in curves for i in range(_SAMPLES + 1)]
    values = [value for curve, at in samples if (value := curve.at(at)) is not None]
    fence = fence_of(values, objective)
    if fence is None:
        return None
    best = objective.best(values)
    margin = 0.05 * abs(fence - best)
    return [min(fence, best) - margin, max(fence, best) + margin]


def _steps(curves: Sequence[Curve]) -> list[int]:
    """Where any of the curves changes, from where all have a value to where the last one ends."""
    first = max(curve.epochs[0] for curve in curves)
    last = max(curve.total for curve in curves)
    return sorted({first, *(at for curve in curves for at in curve.epochs if at >= first), last})
