"""The figures of how the value depends on the hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go
from optuna import visualization
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial
from plotly.colors import sample_colorscale, sequential

from tuner.reporting.figures.figure import BLACK, BLUE, GREY, Drawing
from tuner.reporting.report import FEWEST, MOST_WEIGHED, Importance, RankedTrials, Report
from tuner.spec.plain_values import is_number
from tuner.wording import joined, number

_UNCERTAIN = "cannot be told"
_MOST_LINES = 150
_MOST_AXES = 10
_MOST_DOTS = 1000
_BEST_SHARE = 10  # one trial in so many
_MOST_LISTED = 3  # values; of more, only the least and the greatest
_MOST_COLUMNS = 100  # Optuna's grid has a column for each of them
_LINES = sequential.Blues[3:]  # paler ones cannot be seen on white
_SCALE = "Cividis"  # Nunez et al., PLOS ONE 2018: the same order for every kind of sight


def importance(report: Report) -> Drawing:
    """A bar for each hyperparameter's share with its spread; grey if shares overlap."""
    importances = report.importances
    if not importances:
        return report.ranked.why_nothing(FEWEST), None
    bars = list(reversed(importances))  # the first one drawn is the lowest
    shares = [f"{item.share:.2f}" if item.told_apart else _UNCERTAIN for item in bars]
    plot = go.Figure(layout={"height": 120 + 40 * len(bars)})
    plot.update_xaxes(title="share of all importance", range=[0, 1])
    plot.add_bar(
        orientation="h",
        x=[item.share for item in bars],
        y=[f"{item.name}  {share}" for item, share in zip(bars, shares, strict=True)],
        hovertemplate=[
            f"{item.name}: {item.share:.2f} ({item.low:.2f} to {item.high:.2f})<extra></extra>"
            for item in bars
        ],
        marker_color=[BLUE if item.told_apart else GREY for item in bars],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, item.high - item.share) for item in bars],
            "arrayminus": [max(0.0, item.share - item.low) for item in bars],
            "color": BLACK,
        },
    )
    caption = f"{_verdict(importances)} The lines span nine in ten resamples of the trials."
    count = len(report.ranked.trials)
    if count > MOST_WEIGHED:
        caption += f" Of {count} trials {MOST_WEIGHED} are weighed, evenly over their ranks."
    return caption, plot


def _verdict(importances: Sequence[Importance]) -> str:
    """Which one matters most, or between which ones that is open."""
    unclear = [item.name for item in importances if not item.told_apart]
    if unclear:
        return (
            f"Which of {joined(unclear)} matters most {_UNCERTAIN}: their spreads overlap, and "
            "by chance alone one has much of all importance. It takes more trials."
        )
    return (
        f"{importances[0].name} separates the best trials from the others most; its spread "
        "overlaps with no other's."
    )


def parallel(report: Report) -> Drawing:
    ranked, order = report.ranked, report.names_by_importance
    if not ranked.varying:
        return ranked.why_nothing(), None
    names = order[:_MOST_AXES]
    study = ranked.study(_MOST_LINES)
    plot = visualization.plot_parallel_coordinate(study, names, target_name=ranked.label)
    _colour_lines(plot, greatest_is_best=ranked.objective.sign < 0)
    caption = [
        "Each line is a trial, the darker the better: where the dark lines run together on an "
        "axis, that hyperparameter matters.",
        *ranked.left_out(len(study.trials)),
    ]
    if len(order) > len(names):
        caption.append(f"The {len(names)} leading of {len(order)} hyperparameters are shown.")
    return " ".join(caption), plot


def _colour_lines(plot: go.Figure, *, greatest_is_best: bool) -> None:
    """Colour each trial's line, and the bar beside them: the better, the darker."""
    lines = [trace for trace in plot.data if trace.mode == "lines"]
    heights = [line.y[0] for line in lines]  # on the axis of the objective, 0 to 1
    shares = heights if greatest_is_best else [1 - height for height in heights]
    for line, colour in zip(lines, sample_colorscale(_LINES, shares), strict=True):
        line.line.color = colour
        line.opacity = 0.8
    plot.update_traces(marker={"colorscale": _LINES}, selector={"mode": "markers"})


def slices(report: Report, name: str) -> Drawing:
    """A point for each trial; the caption says where the best ones lie."""
    ranked = report.ranked
    if why := _why_too_few(len(ranked.values_of(name))):
        return why, None
    study = ranked.study(_MOST_DOTS)
    plot = visualization.plot_slice(study, [name], target_name=ranked.label)
    plot.update_traces(
        marker={"color": BLUE, "showscale": False, "size": 7, "opacity": 0.7, "line": {"width": 0}}
    )
    plot.update_layout(height=300)
    return " ".join([_where_best(ranked, name), *ranked.left_out(len(study.trials))]), plot


def _where_best(ranked: RankedTrials, name: str) -> str:
    """Where the best tenth of the trials lie, at least 3 of them."""
    values = ranked.values_of(name)
    best = values[: max(3, len(values) // _BEST_SHARE)]
    numeric = all(map(is_number, best))
    different = sorted(set(best)) if numeric else list(dict.fromkeys(best))
    if numeric and (len(different) == len(best) or len(different) > _MOST_LISTED):
        where = f"between {number(different[0])} and {number(different[-1])}"
    else:
        where = f"at {joined([*map(number, different)])}"
    among = f" ({len(values)} of {len(ranked.trials)} trials have it)"
    partly = among if len(values) < len(ranked.trials) else ""
    return f"The best {len(best)} trials have {name} {where}{partly}."


def _why_too_few(count: int) -> str:
    """Why a figure of `count` trials, those with the hyperparameters in it, is empty; or ""."""
    if count >= FEWEST:
        return ""
    trials = "1 has it" if count == 1 else f"{count} have it"
    return f"Nothing to show: it takes {FEWEST} trials with a value, and {trials}."


def contours(report: Report, pair: tuple[str, str]) -> Drawing:
    """A surface between the trials, the better the darker."""
    x, y = sorted(pair)
    together = tuple(t for t in report.ranked.trials if x in t.params and y in t.params)
    if any(len({repr(t.params[name]) for t in together}) < 2 for name in pair):
        return "Nothing to show: no trials have both, each with at least two values.", None
    if why := _why_too_few(len(together)):
        return why, None
    ranked = replace(report.ranked, trials=together, fence=None, outside=0)
    study = ranked.study(_MOST_COLUMNS)
    plot = visualization.plot_contour(study, [x, y], target_name=ranked.label)
    plot.update_traces(
        colorscale=_SCALE,
        reversescale=ranked.objective.sign < 0,  # its least value is the darkest
        selector={"type": "contour"},
    )
    plot.update_xaxes(tickvals=_list_choices(study.trials, x))
    plot.update_yaxes(tickvals=_list_choices(study.trials, y))
    plot.update_traces(
        marker={"color": "white", "size": 6, "line": {"width": 1, "color": BLACK}},
        selector={"type": "scatter"},
    )
    caption = [
        f"The darker, the better {x} and {y} work together. The dots are trials; the surface "
        "between them is interpolated, not measured.",
        *ranked.left_out(len(study.trials)),
    ]
    return " ".join(caption), plot


def _list_choices(trials: Sequence[FrozenTrial], name: str) -> list[float] | None:
    """The values of a choice among numbers, which has none between them; None for other domains."""
    if not all(isinstance(trial.distributions[name], CategoricalDistribution) for trial in trials):
        return None
    values = sorted({trial.params[name] for trial in trials}, key=repr)
    return values if all(map(is_number, values)) else None
