"""Figures of the machine's work: the slots over time, and each trial's memory and throughput."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from tuner.record.history import History, TrialRecord
from tuner.reporting.figures.figure import BLUE, STATUS_COLOURS, Figure, drawn, time_axis
from tuner.reporting.throughput import Throughput, memory_of
from tuner.results.occupancy import Occupancy
from tuner.wording import duration, number

_MOST_BARS = 3000


def machine_figures(
    history: History, occupancy: Occupancy, throughput: Throughput | None
) -> list[Figure]:
    """The timeline of the slots, the memory and the throughput of the trials."""
    return [
        drawn("slots", "Timeline of the slots", _slots, history, occupancy),
        drawn("memory", "Memory", _memory, history.trials),
        drawn("throughput", "Throughput", _throughput, history.trials, throughput),
    ]


def _slots(history: History, occupancy: Occupancy) -> tuple[str, go.Figure | None]:
    if not occupancy.stays or occupancy.busy_share is None:
        return "Nothing to show: no trial has run.", None
    began = history.started or occupancy.stays[0].run.started
    unit, unit_s = time_axis(max(stay.run.ended for stay in occupancy.stays) - began)
    statuses = {trial_id: trial.status for trial_id, trial in history.trials.items()}
    stays = occupancy.stays[:_MOST_BARS]
    plot = go.Figure()
    for status, colour in STATUS_COLOURS.items():
        own = [stay for stay in stays if statuses[stay.trial_id] == status]
        if own:
            plot.add_bar(
                orientation="h",
                y=[f"slot {stay.slot + 1}" for stay in own],
                base=[(stay.run.started - began) / unit_s for stay in own],
                x=[stay.run.duration_s / unit_s for stay in own],
                marker={"color": colour, "line": {"color": "white", "width": 0.5}},
                name=status,
                customdata=[[stay.trial_id, duration(stay.run.duration_s)] for stay in own],
                hovertemplate="trial %{customdata[0]}, %{customdata[1]}<extra></extra>",
            )
    plot.update_layout(
        barmode="overlay",
        bargap=0.15,
        height=150 + 28 * occupancy.slots,
        xaxis={"title": f"{unit} since the start", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        showlegend=True,
    )
    plot.update_yaxes(
        categoryorder="array", categoryarray=[f"slot {n + 1}" for n in range(occupancy.slots)]
    )
    slots = "slot" if occupancy.slots == 1 else "slots"
    said = [
        f"White is idle time: of {occupancy.slots} {slots} x {duration(occupancy.wall_s)}, "
        f"trials ran {occupancy.busy_share:.0%}."
    ]
    if len(stays) < len(occupancy.stays):
        said.append(f"The first {len(stays)} of {len(occupancy.stays)} runs are drawn.")
    return " ".join(said), plot


def _memory(trials: Mapping[str, TrialRecord]) -> tuple[str, go.Figure | None]:
    peaks = memory_of(trials.values())
    if not peaks:
        return "Nothing to show: no trial reported peak_memory_mib.", None
    highest = max(peaks, key=lambda trial_id: peaks[trial_id])
    said = (
        f"The most that a trial took is {number(peaks[highest])} MiB (trial {highest}): "
        "so much each slot must have; a trial far above the others is a config that costs memory."
    )
    return said, _points(peaks, trials, "peak memory, MiB")


def _throughput(
    trials: Mapping[str, TrialRecord], throughput: Throughput | None
) -> tuple[str, go.Figure | None]:
    if throughput is None:
        return "Nothing to show: no trial has reported an epoch.", None
    rates = throughput.rates
    slowest = min(rates, key=lambda trial_id: rates[trial_id])
    said = (
        f"The median trial makes {number(throughput.median)} {throughput.unit}, the slowest "
        f"(trial {slowest}) {number(rates[slowest])}: a slow one is a costly config, or shared its "
        "device."
    )
    return said, _points(rates, trials, throughput.unit)


def _points(values: Mapping[str, float], trials: Mapping[str, TrialRecord], unit: str) -> go.Figure:
    """A value for each trial, by its number."""
    ids = [trial_id for trial_id in trials if trial_id in values]
    return go.Figure(
        go.Scatter(
            x=[number for number, trial_id in enumerate(trials) if trial_id in values],
            y=[values[trial_id] for trial_id in ids],
            customdata=[[trial_id, trials[trial_id].status] for trial_id in ids],
            mode="markers",
            marker={"color": BLUE, "size": 7, "opacity": 0.7},
            hovertemplate="trial %{customdata[0]}, %{customdata[1]}: %{y:.4g}<extra></extra>",
        ),
        {
            "xaxis": {"title": "trial"},
            "yaxis": {"title": unit, "rangemode": "tozero"},
            "height": 300,
        },
    )
