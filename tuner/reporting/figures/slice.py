"""The figures of the value against one hyperparameter, for each of the leading ones."""

from __future__ import annotations

from collections.abc import Iterator

from optuna import visualization

from tuner.reporting.figures._figure import BLUE, Drawing, Variant, figure
from tuner.reporting.ranked_trials import RankedTrials
from tuner.reporting.report import Report
from tuner.spec.plain_values import is_number
from tuner.wording import joined, number

_MOST = 8
_MOST_POINTS = 1000
_BEST = 10  # one trial in so many
_MOST_LISTED = 3  # values; of more, only the least and the greatest


def _leading(report: Report) -> Iterator[Variant]:
    for i, name in enumerate(report.names_by_importance[:_MOST]):
        yield Variant(f"slice-{i}", f"Slice: {name}", name)


@figure("Slice", section="hyperparameters", order=30, half=True, variants=_leading)
def draw(report: Report, name: str) -> Drawing:
    """A point for each trial; the caption says where the best ones lie."""
    ranked = report.ranked
    study = ranked.study(_MOST_POINTS)
    plot = visualization.plot_slice(study, [name], target_name=ranked.label)
    plot.update_traces(
        marker={"color": BLUE, "showscale": False, "size": 7, "opacity": 0.7, "line": {"width": 0}}
    )
    plot.update_layout(height=300)
    return " ".join([_where_best(ranked, name), *ranked.left_out(len(study.trials))]), plot


def _where_best(ranked: RankedTrials, name: str) -> str:
    """Where the best tenth of the trials lie, at least 3 of them."""
    values = ranked.values_of(name)
    best = values[: max(3, len(values) // _BEST)]
    numeric = all(map(is_number, best))
    different = sorted(set(best)) if numeric else list(dict.fromkeys(best))
    if numeric and (len(different) == len(best) or len(different) > _MOST_LISTED):
        where = f"between {number(different[0])} and {number(different[-1])}"
    else:
        where = f"at {joined([*map(number, different)])}"
    among = f" ({len(values)} of {len(ranked.trials)} trials have it)"
    partly = among if len(values) < len(ranked.trials) else ""
    return f"The best {len(best)} trials have {name} {where}{partly}."
