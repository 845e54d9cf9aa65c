"""The figures of searches side by side: the best so far of each strategy against what it spent."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.colors import hex_to_rgb

from tuner.experiment.results.comparison import AXES, Comparison, Curve, Side
from tuner.reporting.figures._figure import COLOURS, DASHES, Drawing, Variant, figure, time_axis
from tuner.reporting.ranked_trials import escaped, fence_of
from tuner.spec.sections import Objective
from tuner.wording import amount_of

_TITLES = {
    "trials": "Best so far by trials",
    "epochs": "Best so far by epochs",
    "seconds": "Best so far by time",
}
_CAPTIONS = {
    "trials": "Trials count when they end, however long they were.",
    "epochs": "Epochs of all trials together: the training that the search took.",
    "seconds": "Time spent searching, the strategy's own included; it depends on the machine.",
}
_LINES = (
    "A line is the mean over the seeds from where all have a value, and its band their range. A "
    "search that has ended keeps its best."
)
_VARIANTS = [Variant(axis, _TITLES[axis], axis) for axis in AXES]
_SAMPLES = 50  # of each curve, evenly over what it spent


@figure("Best so far", section="comparison", order=10, variants=lambda _: _VARIANTS)
def draw(comparison: Comparison, axis: str) -> Drawing:
    """A line for each strategy; there is a figure for each way of counting what was spent."""
    sides = [side for side in comparison.sides if side.best]
    curves = [entrant.curves[axis] for side in sides for entrant in side.entrants]
    longest = max(curve.total for curve in curves)
    unit, unit_s = time_axis(longest) if axis == "seconds" else (axis, 1.0)
    plot = go.Figure()
    for number, side in enumerate(sides):
        _add(plot, side, axis, unit_s, number)
    plot.update_layout(
        xaxis={"title": unit, "rangemode": "tozero"},
        yaxis={
            "title": escaped(comparison.objective.metric),
            "range": _range(curves, comparison.objective),
        },
        showlegend=True,
        height=420,
    )
    return f"{_CAPTIONS[axis]} {_LINES}", plot


def _add(plot: go.Figure, side: Side, axis: str, unit_s: float, number: int) -> None:
    """A strategy's mean over its seeds as a line, and its range as a band."""
    curves = [e.curves[axis] for e in side.entrants if e.curves[axis].best]
    spent = _steps(curves)
    values = [[value for c in curves if (value := c.at(at)) is not None] for at in spent]
    x = [at / unit_s for at in spent]
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
    """The range of the axis without outliers such as the first values; None: no outliers."""
    times = [(curve, curve.total * i / _SAMPLES) for curve in curves for i in range(_SAMPLES + 1)]
    values = [value for curve, at in times if (value := curve.at(at)) is not None]
    fence = fence_of(values, objective)
    if fence is None:
        return None
    best = objective.best(values)
    margin = 0.05 * abs(fence - best)
    return [min(fence, best) - margin, max(fence, best) + margin]


def _steps(curves: Sequence[Curve]) -> list[float]:
    """Where any of the curves changes, from where all have a value to where the last one ends."""
    first = max(curve.spent[0] for curve in curves)
    last = max(curve.total for curve in curves)
    return sorted({first, *(at for curve in curves for at in curve.spent if at >= first), last})
