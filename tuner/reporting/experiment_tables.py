"""The list of experiments for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.experiment.events import ENDED, format_status
from tuner.spec.plain_values import find_value
from tuner.wording import (
    format_duration,
    format_number,
    format_table,
    format_time,
    shorten,
)

if TYPE_CHECKING:
    from tuner.experiment.results.listing import Listed


_EXPERIMENTS = ("name", "status", "trials", "failed", "best", "started")
_LABELS = ("tags", "note")  # shown where there are any
_LONGEST_BEST = 50
_LONGEST_PROBLEM = 100  # characters


def format_experiments(
    experiments: Sequence[Listed], columns: Sequence[str] | None = None
) -> str:
    """One line for each experiment. columns: names of `Listed.build_row` (None: the usual ones)."""
    if not experiments:
        return "no experiments yet; start with: tuner run digits"
    shown = [experiment.build_row() for experiment in experiments]
    labels = (name for name in _LABELS if any(row[name] for row in shown))
    names = [*_EXPERIMENTS, *labels] if columns is None else columns
    rows = [
        tuple(_format_cell(experiment, row, name) for name in names)
        for experiment, row in zip(experiments, shown, strict=True)
    ]
    return format_table(tuple(name.upper() for name in names), rows)


def _format_cell(experiment: Listed, row: Mapping[str, Any], name: str) -> str:
    value = find_value(row, name)
    if name == "started" and experiment.problem:
        return shorten(
            experiment.problem.replace(f"{experiment.folder}/", ""), _LONGEST_PROBLEM
        )
    if value is None:
        return ""
    if name == "best":
        return shorten(f"{experiment.metric} {format_number(value)}", _LONGEST_BEST)
    if name == "time":
        return format_duration(value)
    text = " ".join(value) if isinstance(value, list) else format_number(value)
    return shorten(text, _LONGEST_BEST)


def describe_listed(experiment: Listed) -> dict[str, str]:
    """The numbers of an experiment as the list of the page shows them, in words."""
    counts = experiment.counts
    ended = sum(counts[status] for status in ENDED)
    begun = sum(counts.values())
    of_all = (
        f" / {experiment.total}" if (experiment.total or 0) >= max(begun, 1) else ""
    )
    has_goal = experiment.metric is not None
    return {
        "standing": format_status(experiment.status, experiment.ended_by),
        "share": f"{ended}{of_all}",
        "goal": f"{experiment.metric} ({experiment.mode})" if has_goal else "",
        "best": "" if experiment.best is None else format_number(experiment.best),
        "time": ""
        if experiment.searched_s is None
        else format_duration(experiment.searched_s),
        "started": ""
        if experiment.started is None
        else format_time(experiment.started),
    }
