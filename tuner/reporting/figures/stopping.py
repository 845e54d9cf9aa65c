"""Figures of what the scheduler stopped, and of what that saved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import plotly.graph_objects as go

from tuner.record.history import History
from tuner.reporting.figures.figure import BLUE, ORANGE, SKY, Figure, drawn, time_axis
from tuner.results.early_stopping import Savings
from tuner.wording import number

NO_SCHEDULER = "Nothing to show: the search had no scheduler, so every trial ran its full length."
NO_STOP = "Nothing to show: the scheduler stopped no trial."


def stopping_figures(history: History, savings: Savings | None) -> list[Figure]:
    """How many trials each rung stopped, and the epochs that were trained and saved over time."""
    return [
        drawn("rungs", "Who went on at each rung", _rungs, savings),
        drawn("saved", "Epochs trained and saved", _saved, history, savings),
    ]


def _rungs(savings: Savings | None) -> tuple[str, go.Figure | None]:
    if savings is None:
        return NO_SCHEDULER, None
    if not savings.stops:
        return NO_STOP, None
    rungs = savings.rungs
    names = [str(rung.epoch) for rung in rungs]
    went_on = [rung.reached - rung.stopped for rung in rungs]
    plot = go.Figure(
        [
            go.Bar(x=names, y=went_on, name="not stopped there", marker_color=BLUE),
            go.Bar(x=names, y=[r.stopped for r in rungs], name="stopped there", marker_color=SKY),
        ],
        {
            "barmode": "stack",
            "xaxis": {"title": "rung (epoch)", "type": "category"},
            "yaxis": {"title": "trials that came to it"},
            "legend": {"orientation": "h", "y": 1.08},
        },
    )
    most = max(rungs, key=lambda rung: rung.stopped)
    said = (
        f"Most trials were stopped at epoch {most.epoch}: {most.stopped} of the {most.reached} "
        "that came to it."
    )
    return said, plot


def _saved(history: History, savings: Savings | None) -> tuple[str, go.Figure | None]:
    if savings is None:
        return NO_SCHEDULER, None
    if not savings.stops:
        return NO_STOP, None
    began = history.started or 0.0
    reports = sorted(r.time for trial in history.trials.values() for r in trial.results)
    last = max([*reports, savings.stops[-1].time])
    unit, unit_s = time_axis(last - began)
    plot = go.Figure(
        [
            _steps([(time, 1) for time in reports], (began, last, unit_s), "trained", BLUE),
            _steps(
                [(stop.time, stop.epochs) for stop in savings.stops],
                (began, last, unit_s),
                "saved by stopping",
                ORANGE,
            ),
        ],
        {
            "xaxis": {"title": f"{unit} since the start"},
            "yaxis": {"title": "epochs, in total"},
            "legend": {"orientation": "h", "y": 1.08},
        },
    )
    return saved_in_words(savings), plot


def saved_in_words(savings: Savings) -> str:
    """What stopping early came to, in a sentence."""
    share = f" ({savings.share:.0%})" if savings.share is not None else ""
    trials = "trial" if len(savings.stops) == 1 else "trials"
    hours = f"{number(savings.cpu_hours)} CPU-hours"
    if savings.resources.gpus:
        hours += f" and {number(savings.gpu_hours)} GPU-hours"
    total = savings.epochs + savings.trained_epochs
    return (
        f"{len(savings.stops)} {trials} stopped early saved {savings.epochs} of {total} epochs"
        f"{share}: {hours} at the trials' own pace."
    )


def _steps(
    rises: Sequence[tuple[float, int]],
    clock: tuple[float, float, float],
    name: str,
    colour: str,
) -> go.Scatter:
    """A line that rises at each time by its amount; clock: start, end and unit, in seconds."""
    began, last, unit_s = clock
    totals = [*accumulate(amount for _, amount in rises)]
    return go.Scatter(
        x=[(time - began) / unit_s for time in (began, *(time for time, _ in rises), last)],
        y=[0, *totals, totals[-1] if totals else 0],
        mode="lines",
        line={"shape": "hv", "color": colour, "width": 2.5},
        name=name,
        hovertemplate=f"%{{x:.3g}}: %{{y}} epochs {name}<extra></extra>",
    )
