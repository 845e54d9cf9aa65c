"""The figures of the value over two hyperparameters, for pairs of the leading ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from optuna import visualization

from tuner.reporting.figures._figure import BLACK, Drawing, Variant, figure
from tuner.reporting.report import Report

_LEADING = 3  # hyperparameters, and so many pairs of them
_MOST_TRIALS = 100  # Optuna's grid has a column for each of them
_SCALE = "Cividis"  # Nunez et al., PLOS ONE 2018: the same order for every kind of sight


def _leading_pairs(report: Report) -> Iterator[Variant]:
    pairs = combinations(report.names_by_importance[:_LEADING], 2)
    for i, pair in enumerate(pairs):
        yield Variant(f"contour-{i}", f"Contour: {' and '.join(pair)}", pair)


@figure("Contour", section="hyperparameters", order=40, half=True, variants=_leading_pairs)
def draw(report: Report, pair: tuple[str, str]) -> Drawing:
    """A surface between the trials, the better the darker."""
    x, y = sorted(pair)
    together = tuple(t for t in report.ranked.trials if x in t.params and y in t.params)
    if any(len({repr(t.params[name]) for t in together}) < 2 for name in pair):
        return "Nothing to show: no trials have both, each with at least two values.", None
    ranked = replace(report.ranked, trials=together, fence=None, outside=0)
    study = ranked.study(_MOST_TRIALS)
    plot = visualization.plot_contour(study, [x, y], target_name=ranked.label)
    plot.update_traces(
        colorscale=_SCALE,
        reversescale=ranked.objective.sign < 0,  # its least value is the darkest
        selector={"type": "contour"},
    )
    plot.update_traces(
        marker={"color": "white", "size": 6, "line": {"width": 1, "color": BLACK}},
        selector={"type": "scatter"},
    )
    caption = [
        f"The darker, the better {x} and {y} work together. The dots are trials; the surface "
        "between them is interpolated, not measured.",
        *ranked.left_out(len(study.trials)),
    ]
    return " ".join(caption), plot
