"""An experiment's trials and reports as pandas data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from tuner.record.history import TrialRecord
from tuner.results.selection import best_epoch


def trials_frame(
    trials: Iterable[TrialRecord], *, metric: str, mode: str, seed: int | None = None
) -> pd.DataFrame:
    """One row a trial; the columns are those of `Results.dataframe`. seed: the experiment's."""
    rows = [_trial_row(trial, metric, mode, seed) for trial in trials]
    fixed = ("trial_id", "status", "seed", "best_epoch", "epochs", "started", "duration_s", "error")
    groups = {name: _columns(rows, f"{name}/") for name in ("config", "last", "best")}
    columns = [*fixed[:3], *groups["config"], *groups["last"], *groups["best"], *fixed[3:]]
    frame = pd.DataFrame(rows, columns=columns)
    frame["best_epoch"] = frame["best_epoch"].astype("Int64")
    frame["started"] = pd.to_datetime(frame["started"], unit="s", utc=True)
    return frame


def reports_frame(trials: Iterable[TrialRecord]) -> pd.DataFrame:
    """One row a report: trial_id, epoch, time (UTC) and every metric, in journal order by trial."""
    rows = [
        {"trial_id": trial.trial_id, "epoch": report.epoch, "time": report.time} | report.metrics
        for trial in trials
        for report in trial.results
    ]
    metrics = _columns(rows, "", besides=("trial_id", "epoch", "time"))
    frame = pd.DataFrame(rows, columns=["trial_id", "epoch", "time", *metrics])
    frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True)
    return frame


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, names joined by /.

    >>> flat({"lr": 0.1, "augment": {"shift": 2}})
    {'lr': 0.1, 'augment/shift': 2}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}/")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _trial_row(trial: TrialRecord, metric: str, mode: str, seed: int | None) -> dict[str, Any]:
    last: dict[str, float] = {}
    for report in trial.results:
        last |= report.metrics
    epoch = best_epoch(trial.values(metric), mode=mode)
    best = trial.report_at(epoch) if epoch is not None else None
    return {
        "trial_id": trial.trial_id,
        "status": trial.status,
        "seed": trial.trained_with(seed),
        **flat(trial.config, "config/"),
        **{f"last/{name}": value for name, value in last.items()},
        **({f"best/{name}": value for name, value in best.metrics.items()} if best else {}),
        "best_epoch": epoch,
        "epochs": trial.last_epoch,
        "started": trial.started,
        "duration_s": trial.duration_s,
        "error": trial.error.kind if trial.error else None,
    }


def _columns(
    rows: Iterable[Mapping[str, Any]], prefix: str, besides: tuple[str, ...] = ()
) -> list[str]:
    """The columns with `prefix`, in the order in which the rows first have them."""
    seen = {name: None for row in rows for name in row if name.startswith(prefix)}
    return [name for name in seen if name not in besides]
