"""Rows of named values for `ls` and `trials`: chosen by an expression and sorted by a name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.errors import UsageError, hint, nearest
from tuner.experiment.results.selection import best_report
from tuner.experiment.trials import TrialRecord
from tuner.spec.plain_values import get_at, is_number
from tuner.spec.settings import FaultsError
from tuner.spec.space.constraints import Condition

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results

Row = Mapping[str, Any]  # a dotted name is a path into nested mappings


def arranged(
    rows: Sequence[Row], *, where: str | None = None, sort: str | None = None, reverse: bool = False
) -> list[int]:
    """Indices of the rows for which `where` holds, sorted by `sort`.

    Numbers before text, missing values last. Raises UsageError for a bad expression or name.
    """
    numbers = list(range(len(rows)))
    if where is not None:
        try:
            condition = Condition(where)
        except FaultsError as error:
            raise UsageError(f"--where: {error}") from None
        check_names(condition.names, rows)
        numbers = [number for number in numbers if condition.holds(rows[number])]
    if sort is None:
        return numbers[::-1] if reverse else numbers
    check_names([sort], rows)  # of all rows: those that are left may lack it
    values = {number: get_at(rows[number], sort) for number in numbers}
    present = [number for number in numbers if values[number] is not None]
    lacking = [number for number in numbers if values[number] is None]
    return [*sorted(present, key=lambda n: _key(values[n]), reverse=reverse), *lacking]


def _key(value: object) -> tuple[bool, Any]:
    if is_number(value):
        return False, value
    if isinstance(value, list):
        return True, " ".join(map(str, value))
    return True, value if isinstance(value, str) else json.dumps(value)


def check_names(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Raise UsageError for a name that none of the rows has; of none there is nothing to say."""
    paths = dict.fromkeys(path for row in rows for path in _paths(row))
    for name in names:
        if rows and name not in paths:
            near = hint(nearest(name, paths, 3))
            available = ", ".join(path for path in paths if "." not in path)
            raise UsageError(f"no name {name!r} here{near}; available: {available}")


def _paths(row: Row) -> Iterator[str]:
    """The dotted name of each value in `row`."""
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{below}" for below in _paths(value))


def trial_rows(results: Results) -> list[dict[str, Any]]:
    """A row for each trial, sorted by id."""
    return [trial_row(results, trial) for trial in results.trials.values()]


def trial_row(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """A trial's id, status, epochs, best epoch, time (seconds), error, config and, if no report
    keeps the limits, `beyond_limits`.

    Metrics of the best epoch and hyperparameters have their names, unless these are taken.
    """
    best = best_report(trial, results.objective)
    return {
        **trial.config,
        **(best.metrics if best else {}),
        "trial_id": trial.trial_id,
        "status": trial.status,
        "epochs": trial.last_epoch,
        "epoch": best and best.epoch,
        "time": trial.duration_s,
        "error": trial.error.kind if trial.error else None,
        "config": trial.config,
        **({"beyond_limits": True} if trial.is_beyond(results.objective) else {}),
    }


def trial_json(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """What `trials --trial --json` shows: its row, what its failure says, and its reports."""
    message = trial.error.message if trial.error else None
    reports = [{"epoch": report.epoch, **report.metrics} for report in trial.results]
    return {**trial_row(results, trial), "message": message, "reports": reports}
