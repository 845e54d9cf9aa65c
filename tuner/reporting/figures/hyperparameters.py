"""The figures of how the value depends on the hyperparameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.reporting.axes import Axis
from tuner.reporting.figures.data import (
    FigureData,
    ScoredTrial,
    explain_too_few,
    select_evenly,
    select_leading,
)
from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    GREY,
    Drawing,
    Plot,
    build_plot,
    build_plot_axis,
    build_scatter,
    build_value_axis,
    escape_text,
    round_values,
)
from tuner.reporting.importance import Importance
from tuner.spec.plain_values import is_number
from tuner.wording import format_number, join_names

# N trials, X and Y cells of a grid
_UNCERTAIN = "cannot be told"
_MOST_LINES = 500
_MOST_AXES = 10
_MOST_LABELS = 20  # of categories along one of them
_MOST_DOTS = 500
_BEST_SHARE = 10  # one trial in so many
_MOST_LISTED = 3  # values; of more, only the least and the greatest
_MOST_MEASURED = 1000  # trials that a surface is computed from
_MOST_ON_SURFACE = 200  # dots
_CELLS = 30  # of a surface, along each axis
_LEVELS = 12
_NEAR = 0.5  # kernels at least, in all, from which a cell of a surface has a value
# The shares of the trials, best first, that are drawn in one colour, ever paler
SHADES = {
    0.02: "#08306B",
    0.1: "#2171B5",
    0.25: "#4F97CB",
    0.5: "#82B6DB",
    1.0: "#B3D0E8",
}
# Nunez et al., PLOS ONE 2018: the same order for every kind of sight
_SCALE = "Cividis"
# Where a line crosses the axis of a hyperparameter that the trial lacks
_WITHOUT = -0.08


def draw_importance(data: FigureData) -> Drawing:
    """A bar for each hyperparameter's share with its spread; grey if shares overlap."""
    importances = data.importances
    bars = list(reversed(importances))  # the first one drawn is the lowest
    shares = [f"{item.share:.2f}" if item.told_apart else _UNCERTAIN for item in bars]
    names = [escape_text(item.name) for item in bars]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": round_values(item.share for item in bars),
        "y": [f"{name}  {share}" for name, share in zip(names, shares, strict=True)],
        "hovertemplate": [
            f"{name}: {item.share:.2f} ({item.low:.2f} to {item.high:.2f})<extra></extra>"
            for name, item in zip(names, bars, strict=True)
        ],
        "marker": {"color": [BLUE if item.told_apart else GREY for item in bars]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": round_values(max(0.0, item.high - item.share) for item in bars),
            "arrayminus": round_values(
                max(0.0, item.share - item.low) for item in bars
            ),
            "color": BLACK,
        },
    }
    plot = build_plot(
        [trace],
        x=build_plot_axis("share of all importance", range=[0, 1]),
        y=build_plot_axis("", type="category"),
        height=120 + 40 * len(bars),
    )
    return (
        f"{_explain_importance(importances)} The lines span nine in ten resamples of the trials.",
        plot,
    )


def _explain_importance(importances: Sequence[Importance]) -> str:
    """Which one matters most, or between which ones that is open."""
    unclear = [item.name for item in importances if not item.told_apart]
    if unclear:
        return (
            f"Which of {join_names(unclear)} matters most {_UNCERTAIN}: their spreads overlap, and "
            "by chance alone one has much of all importance. It takes more trials."
        )
    return (
        f"{importances[0].name} separates the best trials from the others most; its spread "
        "overlaps with no other's."
    )


def draw_parallel_coordinates(data: FigureData) -> Drawing:
    """A line for each trial over the axes of the objective and of the hyperparameters."""
    order = data.names_by_importance
    names = [name for name in data.axes if name in order[:_MOST_AXES]]
    trials = select_leading(data.ranked, _MOST_LINES)
    values = [trial.value for trial in data.ranked]
    value_axis = Axis(low=min(values), high=max(values))
    axes = {name: data.axes[name] for name in names}
    heights = {
        trial.trial_id: _compute_heights(trial, value_axis, axes) for trial in trials
    }
    titles = [data.objective.metric, *names]
    ends = [value_axis, *axes.values()]
    plot = build_plot(
        _draw_lines(trials, heights),
        x=build_plot_axis(
            "",
            tickvals=[*range(len(titles))],
            ticktext=[escape_text(title) for title in titles],
            range=[-0.3, len(titles) - 0.7],
            showgrid=False,
        ),
        y=build_plot_axis("", range=[-0.14, 1.1], visible=False),
        shapes=[_draw_axis(position) for position in range(len(titles))],
        annotations=[
            label for at, axis in enumerate(ends) for label in _label_axis(at, axis)
        ],
        meta={
            "axes": [_describe_axis(*pair) for pair in zip(titles, ends, strict=True)]
        },
        showlegend=False,
    )
    caption = [
        "Each line is a trial, and the best ones stand out: where these run together on an axis, "
        "that hyperparameter matters.",
        *data.explain_selection(len(trials)),
    ]
    if any(name not in trial.config for trial in trials for name in names):
        caption.append("A line below an axis is a trial without that hyperparameter.")
    if len(order) > len(names):
        caption.append(
            f"The {len(names)} leading of {len(order)} hyperparameters are shown."
        )
    return " ".join(caption), plot


def _compute_heights(
    trial: ScoredTrial, value_axis: Axis, axes: dict[str, Axis]
) -> list[float]:
    """Where the line of a trial crosses each axis, 0 to 1."""
    heights = [value_axis.scale_position(trial.value)]
    for name, axis in axes.items():
        has_it = name in trial.config
        position = axis.find_positions([trial.config[name]])[0] if has_it else 0.0
        heights.append(axis.scale_position(position) if has_it else _WITHOUT)
    return heights


def _draw_lines(
    trials: Sequence[ScoredTrial], heights: dict[str, list[float]]
) -> list[Plot]:
    """The lines of each shade as one trace, the best trials last, on top."""
    traces = []
    first = 0
    for share, colour in SHADES.items():
        end = max(first, 1, round(share * len(trials)))
        some = trials[first:end]
        first = end
        x: list[int | None] = []
        y: list[float | None] = []
        for trial in some:
            line = heights[trial.trial_id]
            x += [*range(len(line)), None]
            y += [*round_values(line), None]
        style = {"color": colour, "width": 1.3}
        if some:
            trace = build_scatter(
                x, y, mode="lines", line=style, meta=[t.trial_id for t in some]
            )
            traces.append(
                {**trace, "hovertemplate": "trial %{customdata}<extra></extra>"}
            )
    return traces[::-1]


def _draw_axis(position: int) -> Plot:
    line = {"color": GREY, "width": 1}
    ends = {"x0": position, "x1": position, "y0": 0, "y1": 1}
    return {"type": "line", **ends, "line": line, "layer": "below"}


def _label_axis(position: int, axis: Axis) -> Iterable[Plot]:
    """The ends of an axis of numbers, and each of its categories if they are few."""
    labels: dict[float, Any]
    if axis.categories:
        count = len(axis.categories)
        labels = {n: axis.categories[n] for n in range(count) if count <= _MOST_LABELS}
    else:
        labels = {
            axis.low: format_number(axis.low),
            axis.high: format_number(axis.high),
        }
    for at, text in labels.items():
        height = axis.scale_position(at)
        yield {
            "x": position,
            "y": height,
            "text": escape_text(text),
            "showarrow": False,
            "xanchor": "left",
            "xshift": 4,
            "yanchor": "bottom" if height > 0.5 else "top",
            "font": {"size": 11},
            "bgcolor": "#FFFFFFC0",
        }


def _describe_axis(name: str, axis: Axis) -> Plot:
    """An axis in expressions, from which the page makes that of a brushed span."""
    value = name if all(map(str.isidentifier, name.split("."))) else f"value({name!r})"
    if axis.categories:
        return {"value": value, "categories": [repr(each) for each in axis.categories]}
    return {"value": value, "low": axis.low, "high": axis.high, "log": axis.is_log}


def draw_slice(data: FigureData, name: str) -> Drawing:
    """A point for each trial; the caption says where the best ones lie."""
    having = [trial for trial in data.ranked if name in trial.config]
    if why := explain_too_few(len(having)):
        return why, None
    trials = select_leading(having, _MOST_DOTS)
    values = [trial.config[name] for trial in trials]
    y = [trial.value for trial in trials]
    dots = build_scatter(
        _round_positions(data.axes[name], values),
        round_values(y),
        customdata=[trial.trial_id for trial in trials],
        mode="markers",
        marker={"color": BLUE, "size": 7, "opacity": 0.6},
        hovertemplate="trial %{customdata}: %{y:.4g}<extra></extra>",
    )
    plot = build_plot(
        [dots],
        x=_build_named_axis(name, data.axes[name]),
        y=build_value_axis(data.objective.metric, y),
        height=300,
    )
    left_out = data.explain_selection(len(data.ranked) - len(having) + len(trials))
    return " ".join([_describe_best(data, name), *left_out]), plot


def _round_positions(axis: Axis, values: Iterable[Any]) -> list[float | None]:
    return round_values(axis.find_positions(values))


def _build_named_axis(name: str, axis: Axis) -> Plot:
    """The axis of a hyperparameter, with its categories, or logarithmic if it is searched so."""
    if axis.categories:
        last = len(axis.categories) - 1
        texts = [escape_text(category) for category in axis.categories]
        ticks = {"tickvals": [*range(len(texts))], "ticktext": texts}
        return build_plot_axis(name, range=[-0.4, last + 0.4], **ticks)
    if axis.is_log:
        return build_plot_axis(name, type="log")
    return build_value_axis(name, [axis.low, axis.high])


def _describe_best(data: FigureData, name: str) -> str:
    """Where the best tenth of the trials lie, at least 3 of them."""
    values = data.list_values(name)
    best = values[: max(3, len(values) // _BEST_SHARE)]
    numeric = all(map(is_number, best))
    different = sorted(set(best)) if numeric else list(dict.fromkeys(best))
    if numeric and (len(different) == len(best) or len(different) > _MOST_LISTED):
        where = (
            f"between {format_number(different[0])} and {format_number(different[-1])}"
        )
    else:
        where = f"at {join_names([*map(format_number, different)])}"
    among = f" ({len(values)} of {len(data.ranked)} trials have it)"
    partly = among if len(values) < len(data.ranked) else ""
    return f"The best {len(best)} trials have {name} {where}{partly}."


def draw_contour(data: FigureData, pair: tuple[str, str]) -> Drawing:
    """A surface between the trials, the better the darker."""
    x, y = sorted(pair)
    together = [
        trial for trial in data.ranked if x in trial.config and y in trial.config
    ]
    if any(len({repr(trial.config[name]) for trial in together}) < 2 for name in pair):
        return (
            "Nothing to show: no trials have both, each with at least two values.",
            None,
        )
    if why := explain_too_few(len(together)):
        return why, None
    trials = select_leading(together, _MOST_ON_SURFACE)
    axes = {x: data.axes[x], y: data.axes[y]}
    grid_x, grid_y, means = _compute_surface(
        axes, select_evenly(together, _MOST_MEASURED)
    )
    surface = {
        "type": "contour",
        "x": grid_x,
        "y": grid_y,
        "z": means,
        "colorscale": _SCALE,
        "reversescale": data.objective.sign < 0,  # its least value is the darkest
        "contours": {"coloring": "fill", "showlines": False},
        "ncontours": _LEVELS,
        "connectgaps": False,
        "hoverinfo": "skip",
        "colorbar": {
            "title": {"text": escape_text(data.objective.metric)},
            "outlinewidth": 0,
        },
    }
    dots = build_scatter(
        _round_positions(axes[x], (trial.config[x] for trial in trials)),
        _round_positions(axes[y], (trial.config[y] for trial in trials)),
        customdata=[trial.trial_id for trial in trials],
        mode="markers",
        marker={
            "color": "#FFFFFF",
            "size": 5,
            "line": {"width": 1, "color": "#555555"},
        },
        hovertemplate="trial %{customdata}<extra></extra>",
        showlegend=False,
    )
    plot = build_plot(
        [surface, dots],
        x=_build_named_axis(x, axes[x]),
        y=_build_named_axis(y, axes[y]),
    )
    caption = [
        f"The darker, the better {x} and {y} work together. The dots are trials; the surface is "
        "the mean of the trials nearby, and missing where there are none.",
        *data.explain_selection(len(data.ranked) - len(together) + len(trials)),
    ]
    return " ".join(caption), plot


def _compute_surface(
    axes: dict[str, Axis], trials: Sequence[ScoredTrial]
) -> tuple[list[float], list[float], list[list[float | None]]]:
    """The columns, the rows and the values of a grid: means of trials by a Gaussian kernel.

    Nadaraya, "On Estimating Regression", 1964, with Scott's width for two dimensions.
    """
    kernels = []
    grids = []
    for name, axis in axes.items():
        grid = _build_grid(axis)
        grids.append(grid)
        positions = axis.find_positions(trial.config[name] for trial in trials)
        at_N = np.array([axis.scale_position(position) for position in positions])
        width = 0.5 * (at_N.std() or 1.0) * len(trials) ** (-1 / 6)
        if axis.categories:
            # They have no neighbours
            width = min(width, 0.2 / max(len(axis.categories) - 1, 1))
        distances_GN = (
            np.subtract.outer(
                [axis.scale_position(position) for position in grid], at_N
            )
            / width
        )
        kernels.append(np.exp(-0.5 * distances_GN**2))
    weights_YX = kernels[1] @ kernels[0].T
    sums_YX = (kernels[1] * [trial.value for trial in trials]) @ kernels[0].T
    means_YX: NDArray[np.float64] = np.full_like(weights_YX, np.nan)
    np.divide(sums_YX, weights_YX, out=means_YX, where=weights_YX >= _NEAR)
    return grids[0], grids[1], [round_values(row) for row in means_YX]


def _build_grid(axis: Axis) -> list[float]:
    """Positions along an axis: its categories, or evenly in its own scale."""
    if axis.categories:
        return [*map(float, range(len(axis.categories)))]
    space = np.geomspace if axis.is_log else np.linspace
    return [float(at) for at in space(axis.low, axis.high, _CELLS)]
