"""The figure of each trial's peak memory."""

from __future__ import annotations

from tuner.reporting.figures._figure import Drawing, figure, value_of_each_trial
from tuner.reporting.report import Report
from tuner.wording import number


@figure("Memory", section="machine", order=20, half=True)
def draw(report: Report) -> Drawing:
    """A point for each trial that reported its memory."""
    peaks = report.peaks_mib
    if not peaks:
        return "Nothing to show: no trial reported peak_memory_mib.", None
    highest = max(peaks, key=lambda trial_id: peaks[trial_id])
    caption = (
        f"The largest trial took {number(peaks[highest])} MiB (trial {highest}), so each slot "
        "needs as much. A trial far above the others has a config that costs memory."
    )
    left_out, plot = value_of_each_trial(peaks, report.results.trials, "peak memory, MiB")
    return caption + left_out, plot
