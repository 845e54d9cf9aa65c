"""Rows of named values, chosen by an expression and sorted by a name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.errors import UsageError, suggest_similar
from tuner.spec.plain_values import find_value, is_number
from tuner.spec.settings import FaultsError
from tuner.spec.space.constraints import Condition

Row = Mapping[str, Any]  # a dotted name is a path into nested mappings


def select_rows(
    rows: Sequence[Row],
    *,
    where: str | None = None,
    sort: str | None = None,
    reverse: bool = False,
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
        numbers = [number for number in numbers if condition.is_true(rows[number])]
    if sort is None:
        return numbers[::-1] if reverse else numbers
    check_names([sort], rows)  # of all rows: those that are left may lack it
    values = {number: find_value(rows[number], sort) for number in numbers}
    present = [number for number in numbers if values[number] is not None]
    lacking = [number for number in numbers if values[number] is None]
    return [
        *sorted(present, key=lambda n: _build_sort_key(values[n]), reverse=reverse),
        *lacking,
    ]


def _build_sort_key(value: object) -> tuple[bool, Any]:
    if is_number(value):
        return False, value
    if isinstance(value, list):
        return True, " ".join(map(str, value))
    return True, value if isinstance(value, str) else json.dumps(value)


def check_names(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Raise UsageError for a name that none of the rows has; of none there is nothing to say."""
    for name in names:
        if rows and not any(name in _list_paths(row) for row in rows):
            paths = dict.fromkeys(path for row in rows for path in _list_paths(row))
            # `available` leaves out those with a dot
            near = suggest_similar(name, paths, 3)
            available = ", ".join(path for path in paths if "." not in path)
            raise UsageError(f"no name {name!r} here{near}; available: {available}")


def _list_paths(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{below}" for below in _list_paths(value))
