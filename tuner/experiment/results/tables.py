"""An experiment's trials and reports as data frames and as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from tuner.errors import UsageError
from tuner.experiment.files import write_file
from tuner.experiment.results.selection import find_best_report
from tuner.experiment.trials import TrialRecord
from tuner.spec.plain_values import flatten, is_number
from tuner.spec.sections import Objective
from tuner.wording import escape_formula

_LARGEST_INTEGER = 2**63  # of pandas


def build_trials_frame(
    trials: Iterable[TrialRecord], objective: Objective, *, seed: int | None = None
) -> pd.DataFrame:
    """One row a trial; the columns are those of `Results.dataframe`. seed: the experiment's."""
    rows = [_build_trial_row(trial, objective, seed) for trial in trials]
    first = ("trial_id", "status", "seed")
    last = (
        "best_epoch",
        "epochs",
        "started",
        "duration_s",
        "error",
        "message",
    )
    groups = {
        name: _list_columns(rows, f"{name}/") for name in ("config", "last", "best")
    }
    columns = [
        *first,
        *groups["config"],
        *groups["last"],
        *groups["best"],
        *last,
    ]
    frame = pd.DataFrame(rows, columns=columns)
    for name in groups["config"]:
        values = [row.get(name, pd.NA) for row in rows]
        frame[name] = _build_config_column(values)
    frame["best_epoch"] = frame["best_epoch"].astype("Int64")
    frame["started"] = pd.to_datetime(frame["started"], unit="s", utc=True)
    return frame


def build_reports_frame(trials: Iterable[TrialRecord]) -> pd.DataFrame:
    """One row a report: trial_id, epoch, time (UTC) and every metric, in journal order by trial."""
    rows = [
        {"trial_id": trial.trial_id, "epoch": report.epoch, "time": report.time}
        | report.metrics
        for trial in trials
        for report in trial.results
    ]
    columns = None if rows else ["trial_id", "epoch", "time"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True)
    return frame


def write_table(frame: pd.DataFrame, path: Path | str) -> Path:
    """Write a `Results.dataframe` to a .parquet or .csv file; returns the path.

    Mixed values become JSON text. In a .csv an apostrophe disarms formulas. Raises UsageError.
    """
    path = Path(path).expanduser()
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise UsageError(f"a table must end in .parquet or .csv, got {str(path)!r}")
    frame = frame.copy()
    for name in frame.columns[frame.columns.str.startswith("config/")]:
        values = frame[name].tolist()
        present = [value for value in values if value is not pd.NA]
        kinds = {"number" if is_number(v) else type(v).__name__ for v in present}
        is_uniform = kinds <= {"number"} or kinds <= {"str"} or kinds <= {"bool"}
        if not is_uniform:
            frame[name] = [None if v is pd.NA else json.dumps(v) for v in values]
    if suffix == ".parquet":
        write_file(path, lambda partial: frame.to_parquet(partial, index=False))
        return path
    texts = frame.select_dtypes(exclude=["number", "bool", "datetimetz"]).columns
    escaped = {name: frame[name].map(escape_formula) for name in texts}
    frame = frame.assign(**escaped).rename(columns=escape_formula)
    write_file(path, lambda partial: frame.to_csv(partial, index=False))
    return path


def _build_trial_row(
    trial: TrialRecord, objective: Objective, seed: int | None
) -> dict[str, Any]:
    last: dict[str, float] = {}
    for report in trial.results:
        last |= report.metrics
    best = find_best_report(trial, objective)
    error = trial.error
    has_best = best is not None and objective.can_be_best(best.epoch, best.metrics)
    return {
        "trial_id": trial.trial_id,
        "status": trial.status,
        "seed": trial.find_seed(seed),
        **{f"config/{name}": value for name, value in flatten(trial.config).items()},
        **{f"last/{name}": value for name, value in last.items()},
        # Missing where they do not count: the columns stay, and a sort has them last
        **{
            f"best/{n}": v if has_best else nan
            for n, v in (best.metrics if best else {}).items()
        },
        "best_epoch": best.epoch if best and has_best else None,
        "epochs": trial.last_epoch,
        "started": trial.started,
        "duration_s": trial.duration_s,
        "error": error.kind if error else None,
        "message": error.message if error else None,
    }


def _build_config_column(values: list[Any]) -> pd.Series:
    """A column in which whole numbers stay so, and None is a value; pd.NA: it is missing."""
    present = [value for value in values if value is not pd.NA]
    is_whole = all(
        type(value) is int and abs(value) < _LARGEST_INTEGER for value in present
    )
    if len(present) == len(values) and None not in present:
        return pd.Series(values)
    if is_whole:
        return pd.Series(values, dtype="Int64")
    is_plain_number = all(is_number(value) for value in present)
    return pd.Series(values, dtype="Float64" if is_plain_number else object)


def _list_columns(rows: Iterable[Mapping[str, Any]], prefix: str) -> list[str]:
    """The columns with `prefix`, in the order in which the rows first have them."""
    return list(
        dict.fromkeys(name for row in rows for name in row if name.startswith(prefix))
    )
