"""The figure of how fast each trial trained."""

from __future__ import annotations

from statistics import median

from tuner.reporting.figures._figure import Drawing, figure, value_of_each_trial
from tuner.reporting.report import Report
from tuner.wording import number


@figure("Throughput", section="machine", order=30, half=True)
def draw(report: Report) -> Drawing:
    """A point for each trial, in images a second or else in epochs a minute."""
    throughput = report.throughput
    if throughput is None:
        return "Nothing to show: no trial has reported an epoch.", None
    rates, unit = throughput.rates, throughput.unit
    slowest = min(rates, key=lambda trial_id: rates[trial_id])
    caption = (
        f"The median trial makes {number(median(rates.values()))} {unit}, the slowest "
        f"(trial {slowest}) {number(rates[slowest])}. A slow one has a costly config, or shared "
        "its device."
    )
    left_out, plot = value_of_each_trial(rates, report.results.trials, unit)
    return caption + left_out, plot
