"""The figures of learning curves, early stopping and the use of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tuner.experiment.trials import TrialRecord
from tuner.reporting.figures.data import (
    FigureData,
    explain_selection,
    find_fence,
    select_evenly,
    select_leading,
)
from tuner.reporting.figures.figure import (
    BLACK,
    BLUE,
    GREY,
    SKY,
    STATUS_COLOURS,
    VERMILLION,
    Drawing,
    Plot,
    build_count_axis,
    build_plot,
    build_plot_axis,
    build_scatter,
    build_value_axis,
    round_values,
    scale_time,
)
from tuner.spec.sections import Objective, infer_mode
from tuner.wording import format_number

_MOST_CURVES = 2000
_MOST_POINTS = 12_000  # of all curves but the best; more cannot be told from each other
_FEWEST_POINTS = 3  # of a curve that is drawn without dots
_PARTS = 240  # of the search's time, in each of which the trials at a time are averaged
_IDLE = VERMILLION + "40"  # its opacity in hexadecimal digits
_HOVER = "trial %{customdata}, epoch %{x}: %{y:.4g}<extra></extra>"

Curve = Sequence[tuple[int, float]]  # epochs and values


def draw_learning_curves(data: FigureData, metric: str | None = None) -> Drawing:
    """A metric, by default the objective's, by epoch: a line for each trial by its status."""
    objective = data.objective
    metric = objective.metric if metric is None else metric
    if metric != objective.metric:
        objective = Objective(metric=metric, mode=infer_mode(metric) or objective.mode)
    by_id = {
        trial_id: trial.list_values(metric) for trial_id, trial in data.trials.items()
    }
    reported = {trial_id: values for trial_id, values in by_id.items() if values}
    if not reported:
        return f"Nothing to show: no trial reported {metric}.", None
    best_first = [trial.trial_id for trial in data.ranked if trial.trial_id in reported]
    ids = select_leading([*dict.fromkeys([*best_first, *reported])], _MOST_CURVES)
    best = best_first[:1]
    traces = _draw_groups({i: reported[i] for i in ids if i not in best}, data.trials)
    for trial_id in best:
        style = {
            "line": {"color": BLACK, "width": 3},
            "marker": {"color": BLACK, "size": 4},
        }
        traces.append(
            _draw_curves({trial_id: reported[trial_id]}, name="the best trial", **style)
        )
    values = [value for curve in reported.values() for _, value in curve]
    edge, notes = _cut_outliers(data, values, objective)
    rungs = data.rungs
    caption = [
        "Trials that learn well pull ahead early. Early stopping would have lost one that crosses "
        "over late."
    ]
    if rungs:
        at = ", ".join(str(rung.epoch) for rung in rungs)
        caption.append(f"Dotted lines are the rungs, at epoch {at}.")
    caption += [*explain_selection("curves", len(reported), len(ids)), *notes]
    longest = max(trial.last_epoch for trial in data.trials.values())
    plot = build_plot(
        traces,
        x=build_count_axis("epoch", most=longest),
        y=build_plot_axis(metric, range=edge)
        if edge
        else build_value_axis(metric, values),
        shapes=[_draw_rung(rung.epoch) for rung in rungs],
        showlegend=True,
        height=440,
    )
    return " ".join(caption), plot


def _draw_groups(
    curves: dict[str, Curve], trials: Mapping[str, TrialRecord]
) -> list[Plot]:
    """The curves of each status as one trace, and as another one those of few points, with dots."""
    most = max(2, _MOST_POINTS // max(len(curves), 1))
    groups: dict[tuple[str, bool], dict[str, Curve]] = {}
    for trial_id, curve in curves.items():
        key = trials[trial_id].status, len(curve) < _FEWEST_POINTS
        groups.setdefault(key, {})[trial_id] = select_evenly(curve, most)
    traces = []
    seen: set[str] = set()
    for (status, is_short), group in groups.items():
        colour = STATUS_COLOURS[status]
        traces.append(
            _draw_curves(
                group,
                name=status,
                legendgroup=status,
                showlegend=status not in seen,
                mode="lines+markers" if is_short else "lines",
                line={"color": colour, "width": 1},
                marker={"color": colour, "size": 6},
                opacity=0.7 if len(curves) < _MOST_CURVES // 10 else 0.35,
            )
        )
        seen.add(status)
    return traces


def _draw_curves(curves: dict[str, Curve], **settings: object) -> Plot:
    gap = (None, None)
    points = [*chain.from_iterable((*curve, gap) for curve in curves.values())][:-1]
    epochs = [epoch for epoch, _ in points]
    values = [
        None if value is None else round_values([value])[0] for _, value in points
    ]
    settings = {"mode": "lines+markers", **settings}
    return build_scatter(
        epochs, values, meta=[*curves], hovertemplate=_HOVER, **settings
    )


def _draw_rung(epoch: int) -> Plot:
    line = {"color": GREY, "dash": "dot", "width": 1}
    ends = {"x0": epoch, "x1": epoch, "y0": 0, "y1": 1}
    return {"type": "line", **ends, "yref": "paper", "line": line}


def _cut_outliers(
    data: FigureData, values: Sequence[float], objective: Objective
) -> tuple[list[float] | None, list[str]]:
    """What the axis spans if some values lie far out, and the sentence on them."""
    sign = objective.sign
    fence = find_fence(values, objective)
    if fence is None:
        return None, []
    if objective == data.objective:
        # One long trial has most of the values: no other lies outside with all of its own
        fence = sign * max(
            sign * value for value in [fence, *(t.value for t in data.ranked)]
        )
    every = np.asarray(values, float)
    inside = every[sign * every <= sign * fence]
    if len(inside) == len(every):
        return None, []
    low = float(inside.min())
    high = float(inside.max())
    margin = 0.05 * (high - low) or 1.0
    note = f"Values beyond {format_number(fence)} lie outside the picture; zoom out to see them."
    return [low - margin, high + margin], [note]


def draw_rung_counts(data: FigureData) -> Drawing:
    """A bar for each rung: the trials that reached it, stopped there or not."""
    counts = data.rungs
    if not data.stopped:
        return "Nothing to show: no scheduler stopped a trial.", None
    if not counts:
        return "Nothing to show: the scheduler has no rungs.", None
    names = [str(rung.epoch) for rung in counts]
    bars = [
        ([rung.reached - rung.stopped for rung in counts], "not stopped there", BLUE),
        ([rung.stopped for rung in counts], "stopped there", SKY),
    ]
    reached = max(rung.reached for rung in counts)
    plot = build_plot(
        [
            {
                "type": "bar",
                "x": names,
                "y": y,
                "name": name,
                "marker": {"color": colour},
            }
            for y, name, colour in bars
        ],
        x=build_plot_axis("rung (epoch)", type="category"),
        y=build_count_axis("trials that reached it", most=reached),
        barmode="stack",
    )
    most = max(counts, key=lambda rung: rung.stopped)
    caption = (
        f"Most trials were stopped at epoch {most.epoch}: {most.stopped} of the {most.reached} "
        "that reached it."
    )
    return caption, plot


def draw_slots(data: FigureData) -> Drawing:
    """How many trials ran at a time, or their GPUs, over the time of searching.

    All trials of the experiment count, also those that are not chosen.
    """
    runs = [run for trial in data.results.trials.values() for run in trial.runs]
    seconds = data.results.history.find_searched_s(
        time for run in runs for time in (run.started, run.ended)
    )
    times_2N = np.asarray(seconds, float).reshape(-1, 2).T
    if not times_2N.size or times_2N.max() <= times_2N.min():
        return "Nothing to show: no trial has run.", None
    edges = np.linspace(0, times_2N.max(), _PARTS + 1)
    # The part of each trial's time that lies before each edge
    spent = np.clip(edges[:, None], *times_2N).sum(axis=1) - times_2N[0].sum()
    mean = np.diff(spent) / np.diff(edges)
    at_once = _count_at_once(times_2N)
    gpus = data.spec.resources.gpus * data.spec.resources.ranks if data.spec else 0
    of_each, unit = (gpus, "GPUs at a time") if gpus else (1.0, "trials at a time")
    used = round_values([*mean * of_each, mean[-1] * of_each])
    most = at_once * of_each
    steps = {"mode": "lines", "line": {"shape": "hv", "width": 1, "color": BLUE}}
    idle = {
        "mode": "lines",
        "line": {"width": 0},
        "fill": "tonexty",
        "fillcolor": _IDLE,
    }
    of_unit, axis = scale_time(float(edges[-1]))
    x = round_values(edges / of_unit)
    plot = build_plot(
        [
            build_scatter(x, used, name=unit, fill="tozeroy", fillcolor=SKY, **steps),
            build_scatter(x, [most] * len(x), name="idle", hoverinfo="skip", **idle),
        ],
        x=axis,
        y=build_plot_axis(unit, rangemode="tozero"),
        showlegend=True,
    )
    share = 1 - float(mean.mean()) / at_once
    caption = (
        f"{unit[0].upper()}{unit[1:]}: {format_number(most)} at most, "
        f"{float(mean.mean()) * of_each:.2g} on average; {share:.0%} of this room was idle."
    )
    return caption, plot


def _count_at_once(times_2N: NDArray[np.float64]) -> int:
    """The most trials that ran at one time. times_2N: when each started and ended."""
    started, ended = np.sort(times_2N, axis=1)
    running = np.arange(1, len(started) + 1) - np.searchsorted(
        ended, started, side="right"
    )
    return int(running.max())


def draw_trial_curve(
    data: FigureData, trial_id: str, metric: str | None = None
) -> Drawing:
    """The curve of a trial beside that of the best one, and the median of all at each epoch."""
    metric = metric or data.objective.metric
    reported = {
        i: values
        for i, trial in data.trials.items()
        if (values := trial.list_values(metric))
    }
    if trial_id not in reported:
        return f"Nothing to show: it has not reported {metric}.", None
    by_epoch: dict[int, list[float]] = {}
    for epoch, value in chain.from_iterable(reported.values()):
        by_epoch.setdefault(epoch, []).append(value)
    epochs = sorted(by_epoch)
    medians = [float(np.median(by_epoch[epoch])) for epoch in epochs]
    ranked = (trial.trial_id for _, trial in data.results.ranked)
    best = next((each for each in ranked if each in reported), trial_id)
    traces = [
        build_scatter(
            epochs,
            round_values(medians),
            mode="lines",
            line={"color": GREY, "dash": "dash"},
            name="median of all trials",
        )
    ]
    for each, (name, colour) in {
        best: ("best", BLACK),
        trial_id: ("this trial", BLUE),
    }.items():
        style = {
            "line": {"color": colour, "width": 2},
            "marker": {"color": colour, "size": 4},
        }
        traces.append(_draw_curves({each: reported[each]}, name=name, **style))
    shown = [value for trace in traces for value in trace["y"]]
    plot = build_plot(
        traces,
        x=build_count_axis("epoch", most=epochs[-1]),
        y=build_value_axis(metric, shown),
        showlegend=True,
    )
    which = (
        "It is the best trial" if best == trial_id else f"The best one is trial {best}"
    )
    return (
        f"{which}; at each epoch the median is that of the trials that reached it.",
        plot,
    )
