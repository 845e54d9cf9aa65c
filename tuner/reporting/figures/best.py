"""The figures of the best value over the search, and of the best trial's classes."""

from __future__ import annotations

import plotly.graph_objects as go

from tuner.experiment.results.classes import class_accuracies, confusion_in
from tuner.experiment.results.selection import best_so_far
from tuner.reporting.figures.figure import BLUE, GREY, Drawing
from tuner.reporting.ranked_trials import NO_TRIALS, escaped, evenly
from tuner.reporting.report import Report

_MOST_POINTS = 3000


def history(report: Report) -> Drawing:
    """The best value after each trial, and each trial's own best value."""
    ranked = report.ranked
    if not ranked.trials:
        return NO_TRIALS, None
    trials = sorted(ranked.trials, key=lambda trial: trial.number)
    drawn = evenly(trials, _MOST_POINTS)
    values = ((trial.number, trial.value) for trial in trials if trial.value is not None)
    steps = best_so_far(values, ranked.objective)
    steps.append((trials[-1].number, steps[-1][1]))
    plot = go.Figure(
        [
            go.Scatter(
                x=[trial.number for trial in drawn],
                y=[trial.value for trial in drawn],
                mode="markers",
                marker={"color": GREY, "size": 5, "opacity": 0.7},
                name="a trial's best",
            ),
            go.Scatter(
                x=[number for number, _ in steps],
                y=[value for _, value in steps],
                mode="lines",
                line={"color": BLUE, "width": 2.5, "shape": "hv"},
                name="best so far",
            ),
        ],
        {"xaxis": {"title": "trial"}, "yaxis": {"title": ranked.label}},
    )
    later = sum(trial.number > ranked.trials[0].number for trial in trials)
    caption = (
        f"Trials in the order of their ids: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little."
    )
    if len(drawn) < len(trials):
        caption += f" Of {len(trials)} trials {len(drawn)} are drawn, evenly."
    return caption, plot


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
