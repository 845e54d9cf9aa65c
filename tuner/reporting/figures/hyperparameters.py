"""Figures of what the hyperparameters do: Optuna's, of the trials as they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import plotly.graph_objects as go
from optuna import visualization
from optuna.importance import PedAnovaImportanceEvaluator

from tuner.reporting.comparable import Comparable
from tuner.reporting.figures.figure import BLACK, BLUE, SCALE, Figure, drawn, text
from tuner.reporting.importance import FEWEST, Importance
from tuner.wording import listed, number

_MOST_LINES = 150
_MOST_AXES = 10
_MOST_SLICES = 8
_MOST_POINTS = 1000
_MOST_IN_CONTOUR = 100  # Optuna's grid has a column for each of them
_LEADING_PAIRS = 3  # hyperparameters, and so many pairs of them
_BEST = 10  # one trial in so many
_MOST_LISTED = 3  # numbers; of more the least and the greatest are told

NO_TRIALS = "Nothing to show: no trial that did not fail has a value of the objective."
NO_NAMES = "Nothing to show: all trials have the same config."


def hyperparameter_figures(compared: Comparable, found: Sequence[Importance]) -> list[Figure]:
    """Importances, parallel coordinates, a slice for each leading hyperparameter, contours."""
    order = [one.name for one in found] or compared.varying
    pairs = combinations(order[:_LEADING_PAIRS], 2)
    return [
        drawn("importance", "Importance", _importance, compared, found),
        drawn("parallel", "Parallel coordinates", _parallel, compared, order),
        *(
            drawn(f"slice-{i}", f"Slice: {name}", _slice, compared, name)
            for i, name in enumerate(order[:_MOST_SLICES])
        ),
        *(
            drawn(f"contour-{i}", f"Contour: {' and '.join(pair)}", _contour, compared, pair)
            for i, pair in enumerate(pairs)
        ),
    ]


def _importance(compared: Comparable, found: Sequence[Importance]) -> tuple[str, go.Figure | None]:
    if not found:
        return _why(compared, FEWEST), None
    plot = visualization.plot_param_importances(
        compared.study(),
        evaluator=PedAnovaImportanceEvaluator(),
        params=[one.name for one in found],
    )
    bars = list(reversed(found))  # the first one drawn is the lowest
    plot.data[0].update(
        x=[one.share for one in bars],
        y=[f"{one.name}  {one.share:.2f}" for one in bars],
        text=None,
        hovertemplate=[
            f"{one.name}: {one.share:.2f} ({one.low:.2f} to {one.high:.2f})<extra></extra>"
            for one in bars
        ],
        marker_color=BLUE,
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, one.high - one.share) for one in bars],
            "arrayminus": [max(0.0, one.share - one.low) for one in bars],
            "color": BLACK,
        },
    )
    plot.update_layout(
        height=120 + 40 * len(bars),
        xaxis={"title": "share of all importance", "range": [0, 1]},
        yaxis={"title": ""},
    )
    first, overlapping = found[0], [o.name for o in found[1:] if o.high >= found[0].low]
    sure = (
        f"its spread overlaps with that of {listed(overlapping)}, so more trials would have to "
        "tell which matters most"
        if overlapping
        else "its spread overlaps with no other's"
    )
    return (
        f"{first.name} tells the best trials from the others most; {sure}. The lines span nine in "
        "ten resamples of the trials.",
        plot,
    )


def _parallel(compared: Comparable, order: Sequence[str]) -> tuple[str, go.Figure | None]:
    if not compared.varying:
        return _why(compared), None
    names = list(order[:_MOST_AXES])
    study = compared.study(_MOST_LINES)
    plot = visualization.plot_parallel_coordinate(study, names, target_name=text(compared.metric))
    said = [
        "Each line is a trial, the darker the better: where the dark lines run together on an "
        "axis, that hyperparameter matters.",
        *_left_out(compared, len(study.trials)),
    ]
    if len(order) > len(names):
        said.append(f"The {len(names)} leading of {len(order)} hyperparameters are shown.")
    return " ".join(said), plot


def _slice(compared: Comparable, name: str) -> tuple[str, go.Figure | None]:
    study = compared.study(_MOST_POINTS)
    plot = visualization.plot_slice(study, [name], target_name=text(compared.metric))
    plot.update_traces(
        marker={"color": BLUE, "showscale": False, "size": 7, "opacity": 0.7, "line": {"width": 0}}
    )
    plot.update_layout(height=300)
    said = [_where_best(compared, name), *_left_out(compared, len(study.trials))]
    return " ".join(said), plot


def _contour(compared: Comparable, pair: Sequence[str]) -> tuple[str, go.Figure | None]:
    x, y = sorted(pair)
    together = [t for t in compared.trials if x in t.params and y in t.params]
    if any(len({repr(t.params[name]) for t in together}) < 2 for name in pair):
        return "Nothing to show: no trials have both, each with at least two values.", None
    part = Comparable(tuple(together), compared.metric, compared.mode)
    study = part.study(_MOST_IN_CONTOUR)
    plot = visualization.plot_contour(study, [x, y], target_name=text(compared.metric))
    plot.update_traces(
        colorscale=SCALE, reversescale=compared.mode == "min", selector={"type": "contour"}
    )
    plot.update_traces(
        marker={"color": BLACK, "size": 5, "line": {"width": 1, "color": "white"}},
        selector={"type": "scatter"},
    )
    said = [
        f"The lighter, the better {x} and {y} work together. The dots are trials; the surface "
        "between them is drawn, not measured.",
        *_left_out(part, len(study.trials)),
    ]
    return " ".join(said), plot


def _where_best(compared: Comparable, name: str) -> str:
    """Where the best tenth of the trials lie, at least 3 of them."""
    having = [trial for trial in compared.trials if name in trial.params]
    best = having[: max(3, len(having) // _BEST)]
    values = [trial.params[name] for trial in best]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    different = sorted(set(values)) if numeric else list(dict.fromkeys(values))
    if numeric and (len(different) == len(values) or len(different) > _MOST_LISTED):
        where = f"between {_number(different[0])} and {_number(different[-1])}"
    else:
        where = f"at {listed([*map(_number, different)])}"
    among = f" ({len(having)} of {len(compared.trials)} trials have it)"
    partly = among if len(having) < len(compared.trials) else ""
    return f"The best {len(best)} trials have {name} {where}{partly}."


def _left_out(compared: Comparable, shown: int) -> list[str]:
    """What a figure does not show, or not where it is."""
    said = []
    if shown < len(compared.trials):
        said.append(
            f"Of {len(compared.trials)} trials {shown} are drawn: the best, and others evenly."
        )
    if compared.outside:
        worse = "above" if compared.mode == "min" else "below"
        said.append(
            f"{_trials(compared.outside)} {worse} {_number(compared.fence)} "
            f"{'is' if compared.outside == 1 else 'are'} drawn there."
        )
    return said


def _why(compared: Comparable, fewest: int = 1) -> str:
    """Why there is nothing to show."""
    if not compared.trials:
        return NO_TRIALS
    if not compared.varying:
        return NO_NAMES
    count = len(compared.trials)
    return f"Nothing to show: it takes {fewest} trials with a value, and there are {count}."


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _number(value: Any) -> str:
    return number(float(value)) if isinstance(value, float) else str(value)
