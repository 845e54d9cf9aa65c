"""The trials of an experiment, and one trial's curve, as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.experiment.results.results import Results
from tuner.experiment.trials import TrialRecord
from tuner.spec.plain_values import flat
from tuner.wording import aligned, duration, number, printable, shorten

_LONGEST = 24  # characters of a value
_PLOT_WIDTH, _PLOT_HEIGHT = 60, 12


def trials_table(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """A line for each row of `trial_rows`, with the hyperparameters that differ between them."""
    if not rows:
        return "no trials"
    configs = [flat(row["config"], ".") for row in rows]
    names = dict.fromkeys(name for config in configs for name in config)
    varying = [name for name in names if len({repr(c.get(name)) for c in configs}) > 1]
    head = ("TRIAL", "STATUS", metric.upper(), "EPOCH", "OF", "TIME", *varying)
    lines = [
        (
            row["trial_id"],
            row["error"] or row["status"],
            _text(row.get(metric)) if row["epoch"] is not None else "",
            _text(row["epoch"]),
            str(row["epochs"]),
            duration(row["time"]),
            *(_text(config.get(name)) for name in varying),
        )
        for row, config in zip(rows, configs, strict=True)
    ]
    return "\n".join(aligned([tuple(map(printable, line)) for line in [head, *lines]]))


def trial_text(results: Results, trial: TrialRecord) -> str:
    """One trial: how it ended, its config, and its curve of the objective."""
    error = f", {trial.error.kind}: {trial.error.message}" if trial.error else ""
    config = aligned([(f"  {printable(k)}", _text(v)) for k, v in flat(trial.config, ".").items()])
    head = f"trial {trial.trial_id}: {trial.status} after {duration(trial.duration_s)}{error}"
    if asked := results.history.steered.answer(trial.ended_by):
        head += f", as asked by {printable(asked.by) or 'a control'}"
    return "\n".join([shorten(head, 200), *config, "", *plot(trial, results.metric)])


def plot(trial: TrialRecord, metric: str) -> Iterator[str]:
    """The values of `metric` over the epochs, as dots in lines of at most 80 characters."""
    values = trial.values(metric)
    if not values:
        yield f"{printable(metric)}: nothing reported"
        return
    low, high = (find(value for _, value in values) for find in (min, max))
    first, last = values[0][0], values[-1][0]
    height = _PLOT_HEIGHT if high > low else 1
    width = min(_PLOT_WIDTH, max(2 * (last - first) + 1, 2))
    grid = [[" "] * width for _ in range(height)]
    for epoch, value in values:
        x = round((epoch - first) / max(1, last - first) * (width - 1))
        y = round((high - value) / (high - low) * (height - 1)) if high > low else 0
        grid[y][x] = "*"
    labels = [number(high), *[""] * (height - 2), *([number(low)] if height > 1 else [])]
    margin = max(map(len, labels))
    yield printable(metric)
    for label, line in zip(labels, grid, strict=True):
        yield f"{label:>{margin}} |{''.join(line)}".rstrip()
    axis = f"{first}{last:>{max(width - len(str(first)), 1)}}" if last > first else str(first)
    yield f"{'':>{margin}}  {axis}  epoch"


def _text(value: object) -> str:
    return "" if value is None else shorten(number(value), _LONGEST)
