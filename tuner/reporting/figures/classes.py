"""The figure of the classes of the test split."""

from __future__ import annotations

from collections.abc import Iterator

import plotly.graph_objects as go

from tuner.experiment.results.classes import class_accuracies, confusion_in
from tuner.reporting.figures._figure import Drawing, Variant, figure
from tuner.reporting.ranked_trials import escaped
from tuner.reporting.report import Report

_TITLE = "Classes of the test split"


def _measured(report: Report) -> Iterator[Variant]:
    """The one figure, of an experiment whose best trial has been evaluated."""
    if confusion_in(report.test) is not None:
        yield Variant("classes", _TITLE, None)


@figure(_TITLE, section="best", order=20, variants=_measured)
def classes(report: Report, argument: None = None) -> Drawing:
    """The share of each true class's images that is predicted as each class."""
    confusion, rows = confusion_in(report.test), class_accuracies(report.test)
    if confusion is None or not rows:
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
