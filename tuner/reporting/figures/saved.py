"""The figure of the epochs that were trained, and that stopping early saved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import plotly.graph_objects as go

from tuner.experiment.results.early_stopping import Savings
from tuner.reporting.figures._figure import BLUE, ORANGE, Drawing, figure, time_axis
from tuner.reporting.ranked_trials import evenly
from tuner.reporting.report import Report
from tuner.wording import amount_of, number

_MOST_POINTS = 3000


@figure("Epochs trained and saved", section="stopping", order=30, half=True)
def draw(report: Report) -> Drawing:
    """Both totals over time."""
    savings, history = report.savings, report.results.history
    if savings is None or not savings.stops:
        return report.why_no_stop, None
    began = history.started or 0.0
    trained = [(r.time, 1) for trial in history.trials.values() for r in trial.results]
    saved = [(stop.time, stop.epochs) for stop in savings.stops]
    ended = max(time for time, _ in [*trained, *saved])
    unit, unit_s = time_axis(ended - began)

    def line(rises: Sequence[tuple[float, int]], name: str, colour: str) -> go.Scatter:
        times, amounts = zip(*rises, strict=True)
        totals = [0, *accumulate(amounts)]
        points = list(zip((began, *times, ended), (*totals, totals[-1]), strict=True))
        shown = evenly(points, _MOST_POINTS)
        return go.Scatter(
            x=[(time - began) / unit_s for time, _ in shown],
            y=[total for _, total in shown],
            mode="lines",
            line={"shape": "hv", "color": colour, "width": 2.5},
            name=name,
            hovertemplate=f"%{{x:.3g}}: %{{y}} epochs {name}<extra></extra>",
        )

    plot = go.Figure(
        [line(sorted(trained), "trained", BLUE), line(saved, "saved by stopping", ORANGE)],
        {
            "xaxis": {"title": f"{unit} since the start"},
            "yaxis": {"title": "epochs, in total"},
        },
    )
    caption = _in_words(savings)
    if len(trained) > _MOST_POINTS:
        caption += f" The lines are drawn through {_MOST_POINTS} of their points."
    return caption, plot


def _in_words(savings: Savings) -> str:
    """What stopping early came to, in a sentence."""
    share = f" ({savings.share:.0%})" if savings.share is not None else ""
    hours = f"{number(savings.cpu_hours)} CPU-hours"
    if savings.resources.gpus:
        hours += f" and {number(savings.gpu_hours)} GPU-hours"
    total = savings.epochs + savings.trained_epochs
    return (
        f"{amount_of(len(savings.stops), 'trial')} stopped early saved {savings.epochs} of "
        f"{total} epochs{share}: {hours} at the trials' own pace."
    )
