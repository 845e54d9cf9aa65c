"""The figure of all trials as lines across the axes of their hyperparameters."""

from __future__ import annotations

from optuna import visualization

from tuner.reporting.figures._figure import Drawing, figure
from tuner.reporting.report import Report

_MOST_LINES = 150
_MOST_AXES = 10


@figure("Parallel coordinates", section="hyperparameters", order=20)
def draw(report: Report) -> Drawing:
    """A line for each trial, the better the darker."""
    ranked, order = report.ranked, report.names_by_importance
    if not ranked.varying:
        return ranked.why_nothing(), None
    names = order[:_MOST_AXES]
    study = ranked.study(_MOST_LINES)
    plot = visualization.plot_parallel_coordinate(study, names, target_name=ranked.label)
    caption = [
        "Each line is a trial, the darker the better: where the dark lines run together on an "
        "axis, that hyperparameter matters.",
        *ranked.left_out(len(study.trials)),
    ]
    if len(order) > len(names):
        caption.append(f"The {len(names)} leading of {len(order)} hyperparameters are shown.")
    return " ".join(caption), plot
