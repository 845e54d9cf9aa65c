"""The figure of the best value so far, by trial."""

from __future__ import annotations

from dataclasses import replace

from optuna import visualization
from optuna.trial import FrozenTrial

from tuner.reporting.figures._figure import BLUE, GREY, Drawing, figure
from tuner.reporting.ranked_trials import NO_TRIALS, RankedTrials, evenly
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
        for trace in plot.data[:2]:  # the third is of infeasible trials, which there are none of
            trace.update(x=[place for place, _ in shown])
    plot.data[0].update(marker={"color": GREY, "size": 5, "opacity": 0.7}, name="a trial's best")
    if len(plot.data) > 1:
        plot.data[1].update(line={"color": BLUE, "width": 2.5, "shape": "hv"}, name="best so far")
    plot.update_layout(xaxis_title="trial")
    later = sum(trial.number > ranked.trials[0].number for trial in ranked.trials)
    caption = (
        f"Trials in the order of their ids: {later} after the best one brought nothing better. "
        "Where the line has been flat for long, more trials bring little."
    )
    if len(shown) < len(ranked.trials):
        caption += (
            f" Of {len(ranked.trials)} trials {len(shown)} are drawn: those that brought "
            "something better, and an even selection of the others."
        )
    return caption, plot


def _shown(ranked: RankedTrials) -> list[tuple[int, FrozenTrial]]:
    """(place, trial) in the order of the ids: all, or of too many every new best and some more."""
    placed = list(enumerate(sorted(ranked.trials, key=lambda trial: trial.number)))
    if len(placed) <= _MOST_POINTS:
        return placed
    chosen, best = dict(evenly(placed, _MOST_POINTS)), None
    for place, trial in placed:
        assert trial.value is not None
        if ranked.objective.is_better(trial.value, best):
            best, chosen[place] = trial.value, trial
    return sorted(chosen.items())
