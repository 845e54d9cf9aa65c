"""The figures of the best value: how the search came to it, and what fresh seeds show of it."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go
from optuna import visualization
from optuna.trial import FrozenTrial

from tuner.reporting.comparison_text import leaders_verdict
from tuner.reporting.figures._figure import BLUE, GREY, ORANGE, Drawing, figure
from tuner.reporting.ranked_trials import NO_TRIALS, RankedTrials, escaped, evenly, selection_note
from tuner.reporting.report import Report

_MOST_POINTS = 3000
NOT_CONFIRMED = (
    "Nothing to show: the leaders were not retrained. The best of many noisy trials looks better "
    "than it is; `tuner confirm` shows by how much."
)


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
    """(place, trial) in the order of the ids: all, or of too many every new best and some more."""
    placed = list(enumerate(sorted(ranked.trials, key=lambda trial: trial.number)))
    if len(placed) <= _MOST_POINTS:
        return placed
    chosen, best = dict(evenly(placed, _MOST_POINTS)), None
    for index, trial in placed:
        assert trial.value is not None
        if ranked.objective.is_better(trial.value, best):
            best, chosen[index] = trial.value, trial
    return sorted(chosen.items())


@figure("Confirmation", section="confirmed", order=10)
def confirmation(report: Report) -> Drawing:
    """Each leader's seeds, mean and interval, and the value that the search showed for it."""
    confirmed = report.confirmation
    if confirmed is None:
        return NOT_CONFIRMED, None
    leaders = [(f"trial {leader.trial_id}", leader) for leader in confirmed.leaders if leader.mean]
    names = [name for name, _ in leaders]
    dots = [(name, value) for name, leader in leaders for value in leader.values.values()]
    means = [leader.mean for _, leader in leaders if leader.mean]
    above = [mean.high - mean.mean if mean.high is not None else 0.0 for mean in means]
    below = [mean.mean - mean.low if mean.low is not None else 0.0 for mean in means]
    plot = go.Figure(
        [
            go.Scatter(
                x=[name for name, _ in dots],
                y=[value for _, value in dots],
                mode="markers",
                marker={"color": GREY, "size": 7},
                name="a seed",
            ),
            go.Scatter(
                x=names,
                y=[mean.mean for mean in means],
                error_y={
                    "type": "data",
                    "symmetric": False,  # the chosen one's counts in that it was chosen
                    "array": above,
                    "arrayminus": below,
                    "color": BLUE,
                    "thickness": 2,
                },
                mode="markers",
                marker={"color": BLUE, "size": 11, "symbol": "square"},
                name="mean, with its 95 % interval",
            ),
            go.Scatter(
                x=names,
                y=[leader.searched for _, leader in leaders],
                mode="markers",
                marker={"color": ORANGE, "size": 12, "symbol": "diamond"},
                name="what the search showed",
            ),
        ],
        {
            "xaxis": {"type": "category"},
            "yaxis": {"title": escaped(confirmed.results.metric)},
        },
    )
    return " ".join(leaders_verdict(confirmed)), plot
