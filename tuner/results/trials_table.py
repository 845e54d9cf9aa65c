"""The table of an experiment's trials as a file, for spreadsheets and notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import UsageError
from tuner.record.folder import write_whole
from tuner.results.results import Results

if TYPE_CHECKING:
    import pandas as pd

_WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".parquet": lambda frame, path: frame.to_parquet(path, index=False),
}


def write_trials(results: Results, path: Path | str) -> Path:
    """Write the data frame of `Results.dataframe` to `path`, as its ending says: .parquet or .csv.

    A file of that name is replaced. A column whose values are of several types, or lists, holds
    their JSON text: Parquet has one type a column. Returns the path; raises UsageError for another
    ending, or where it cannot be written.
    """
    path = Path(path).expanduser()
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise UsageError(f"a table of trials must end in .parquet or .csv, got {str(path)!r}")
    frame = results.dataframe()
    for name in frame.columns:
        if name.startswith("config/"):
            frame[name] = _of_one_type(frame[name])
    write_whole(path, lambda partial: writer(frame, partial))
    return path


def _of_one_type(column: pd.Series[Any]) -> pd.Series[Any]:
    kinds = {"number" if _is_number(v) else type(v).__name__ for v in column.dropna()}
    if kinds <= {"number"} or kinds <= {"str"} or kinds <= {"bool"}:
        return column
    return column.map(json.dumps, na_action="ignore")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
