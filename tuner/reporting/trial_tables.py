"""The trials of an experiment as tables for the terminal, and one trial with its curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tuner.experiment.results.results import Results
from tuner.experiment.results.trial_rows import build_trial_row
from tuner.experiment.trials import TrialRecord
from tuner.spec.plain_values import flatten
from tuner.spec.sections import Objective
from tuner.wording import (
    clean_text,
    format_amount,
    format_duration,
    format_number,
    format_rows,
    format_table,
    shorten,
)

_LONGEST = 24  # characters of a value
_PLOT_WIDTH = 60
_PLOT_HEIGHT = 12


def format_front(results: Results) -> str:
    goals = ", ".join(
        f"{goal.better} {goal.metric}" for goal in results.objective.goals
    )
    count = format_amount(len(results.front), "trial")
    rows = [
        build_trial_row(results, trial)
        | {results.metric: trial.best and trial.best.estimate}
        for trial in results.front
    ]
    head = f"Front of {count} that none beats in every objective, by worth"
    table = format_trials(rows, results.objective)
    return f"{head}: {clean_text(goals)}\n{table}"


def format_trials(rows: Sequence[Mapping[str, Any]], objective: Objective) -> str:
    """A line for each row of `build_trial_rows`, with the hyperparameters that differ."""
    if not rows:
        return "no trials"
    configs = [flatten(row["config"], ".") for row in rows]
    varying = []
    for name in list_hyperparameters(configs):
        values = {repr(config.get(name)) for config in configs}
        if len(values) > 1:
            varying.append(name)
    goals = [goal.metric for goal in objective.goals]
    head = (
        "TRIAL",
        "STATUS",
        *map(str.upper, goals),
        "EPOCH",
        "OF",
        "TIME",
        *varying,
    )
    cells = [format_trial_cells(row, goals, varying) for row in rows]
    return format_table(head, cells)


def list_hyperparameters(configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of the hyperparameters of flat configs, in order."""
    names = (name for config in configs for name in config)
    return list(dict.fromkeys(names))


def format_trial_cells(
    row: Mapping[str, Any], goals: Sequence[str], names: Sequence[str]
) -> tuple[str, ...]:
    """A row of `build_trial_rows` in words: id, status, metrics, epochs, time, hyperparameters."""
    config = flatten(row["config"], ".")
    status = row["error"] or row["status"] + _explain_uncounted(row)
    values = (
        "" if row["epoch"] is None else _format_value(row.get(goal)) for goal in goals
    )
    spent = (
        _format_value(row["epoch"]),
        str(row["epochs"]),
        format_duration(row["time"]),
    )
    settings = (_format_value(config.get(name)) for name in names)
    return (
        row["trial_id"],
        status,
        *values,
        *spent,
        *settings,
    )


def _explain_uncounted(row: Mapping[str, Any]) -> str:
    """Why the values of a trial do not count, to follow its status, or ""."""
    if row.get("beyond_limits"):
        return ", beyond limits"
    if "before_epoch" in row:
        return f", before epoch {row['before_epoch']}"
    return ""


def format_trial(results: Results, trial: TrialRecord) -> str:
    """One trial: how it ended, its config, and its curve of the objective."""
    error = f", {trial.error.kind}: {trial.error.message}" if trial.error else ""
    config = format_rows(
        [
            (f"  {clean_text(k)}", _format_value(v))
            for k, v in flatten(trial.config, ".").items()
        ]
    )
    duration = format_duration(trial.duration_s)
    head = f"trial {trial.trial_id}: {trial.status} after {duration}{error}"
    if answer := results.history.steered.find_answer(trial.ended_by):
        author = clean_text(answer.by) or "a control"
        head += f", as asked by {author}"
    lines = [
        shorten(head, 200),
        *config,
        "",
        *plot(trial, results.metric),
    ]
    return "\n".join(lines)


def plot(trial: TrialRecord, metric: str) -> Iterator[str]:
    """The values of `metric` over the epochs, as dots in lines of at most 80 characters."""
    values = trial.list_values(metric)
    if not values:
        yield f"{clean_text(metric)}: nothing reported"
        return
    heights = [value for _, value in values]
    low = min(heights)
    high = max(heights)
    first = values[0][0]
    last = values[-1][0]
    height = _PLOT_HEIGHT if high > low else 1
    width = min(_PLOT_WIDTH, max(2 * (last - first) + 1, 2))
    grid = [[" "] * width for _ in range(height)]
    for epoch, value in values:
        x = round((epoch - first) / max(1, last - first) * (width - 1))
        y = 0
        if high > low:
            y = round((high - value) / (high - low) * (height - 1))
        grid[y][x] = "*"
    labels = [
        format_number(high),
        *[""] * (height - 2),
    ]
    if height > 1:
        labels.append(format_number(low))
    margin = max(map(len, labels))
    yield clean_text(metric)
    for label, line in zip(labels, grid, strict=True):
        yield f"{label:>{margin}} |{''.join(line)}".rstrip()
    axis = str(first)
    if last > first:
        room = max(width - len(axis), 1)
        axis += f"{last:>{room}}"
    yield f"{'':>{margin}}  {axis}  epoch"


def _format_value(value: object) -> str:
    return "" if value is None else shorten(format_number(value), _LONGEST)
