"""The figures of the best value over the search, and of the best trial's classes."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go
from optuna import visualization
from optuna.trial import FrozenTrial

from tuner.experiment.results.classes import class_accuracies, confusion_in
from tuner.reporting.figures._figure import BLUE, GREY, Drawing, figure
from tuner.reporting.ranked_trials import (
    NO_TRIALS,
    RankedTrials,
    escaped,
    evenly,
    selection_note,
)
from tuner.reporting.report import Report

_MOST_POINTS = 3000


@figure("Best so far", section="best", order=10)
def history(report: Report) -> Drawing:
    """The best value after each trial, and each trial's own best value."""
    ranked = report.ranked
    if not ranked.trials:
        return NO_TRIALS, None
    shown = _shown(ranked)
    study = replace(ranked, trials=tuple(trial for _, trial in shown)).study()
    plot = visualization.plot_optimization_history(study, target_name=ranked.label)
    if len(shown) < len(ranked.trials):
        for trace in plot.data[:2]:  # the third is empty: it is that of infeasible trials
            trace.update(x=[index for index, _ in shown])
    plot.data[0].update(marker={"color": GREY, "size": 5, "opacity": 0.7}, name="a trial's best")
    if len(plot.data) > 1:
        plot.data[1].update(line={"color": BLUE, "width": 2.5, "shape": "hv"}, name="best so far")
    plot.update_layout(xaxis_title="trial")
    later = sum(trial.number > ranked.trials[0].number for trial in ranked.trials)
    caption = (
        f"Trials in the order of their ids: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little."
    )
    note = selection_note("trials", len(ranked.trials), len(shown), "each new best")
    return " ".join([caption, *note]), plot


def _shown(ranked: RankedTrials) -> list[tuple[int, FrozenTrial]]:
    """(index, trial) in the order of ids: all, or each new best and an even selection."""
    placed = list(enumerate(sorted(ranked.trials, key=lambda trial: trial.number)))
    if len(placed) <= _MOST_POINTS:
        return placed
    chosen, best = dict(evenly(placed, _MOST_POINTS)), None
    for index, trial in placed:
        assert trial.value is not None
        if ranked.objective.is_better(trial.value, best):
            best, chosen[index] = trial.value, trial
    return sorted(chosen.items())


@figure("Classes of the test split", section="best", order=20)
def classes(report: Report) -> Drawing:
    """The share of each true class's images that is predicted as each class."""
    confusion, rows = confusion_in(report.test), class_accuracies(report.test)
    if confusion is None:
        return None
    if not rows:
        return "Nothing to show: the test split has no image.", None
    names = [escaped(name) for name in confusion[0]]
    shares = [[count / max(sum(row), 1) for count in row] for row in confusion[1]]
    plot = go.Figure(
        go.Heatmap(
            z=shares,
            x=names,
            y=names,
            customdata=confusion[1],
            colorscale="Blues",
            zmin=0,
            zmax=1,
            hovertemplate="%{y} taken for %{x}: %{customdata} images, %{z:.0%}<extra></extra>",
        ),
        {
            "xaxis": {"title": "predicted class", "type": "category"},
            "yaxis": {"title": "true class", "type": "category", "autorange": "reversed"},
        },
    )
    worst = rows[0]
    low, high = worst.interval
    caption = (
        f"Each row is a true class. The least accurate is {escaped(worst.name)}: "
        f"{worst.accuracy:.0%} of {worst.images:,} images, with a 95 % interval of {low:.0%} to "
        f"{high:.0%}"
    )
    if worst.mistaken:
        caption += f"; {worst.mistaken:,} are taken for {escaped(worst.other)}"
    return f"{caption}.", plot
