"""The figure of the best value so far, by trial."""

from __future__ import annotations

from optuna import visualization

from tuner.reporting.figures._figure import BLUE, GREY, Drawing, figure
from tuner.reporting.ranked_trials import NO_TRIALS
from tuner.reporting.report import Report


@figure("Best so far", section="best", order=10)
def draw(report: Report) -> Drawing:
    """The best value after each trial, and each trial's own best value."""
    ranked = report.ranked
    if not ranked.trials:
        return NO_TRIALS, None
    plot = visualization.plot_optimization_history(ranked.study(), target_name=ranked.label)
    plot.data[0].update(marker={"color": GREY, "size": 5, "opacity": 0.7}, name="a trial's best")
    if len(plot.data) > 1:
        plot.data[1].update(line={"color": BLUE, "width": 2.5, "shape": "hv"}, name="best so far")
    plot.update_layout(xaxis_title="trial")
    later = sum(trial.number > ranked.trials[0].number for trial in ranked.trials)
    return (
        f"Trials in the order of their ids: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little.",
        plot,
    )
