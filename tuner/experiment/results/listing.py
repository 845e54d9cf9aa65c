"""The experiments of a storage folder and their trials, in rows of named values.

Rows are chosen by an expression and sorted by a name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from tuner.errors import SpecError, TunerError, UsageError, suggest_similar
from tuner.experiment.events import COUNTED, EXPERIMENT_ENDED, RUNNING, format_status
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.reading import read_last_event
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_report
from tuner.experiment.storage import find_experiment_folders
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import build_spec
from tuner.spec.plain_values import find_value, is_number
from tuner.spec.settings import FaultsError
from tuner.spec.space.constraints import Condition
from tuner.spec.strategies import choose_strategy
from tuner.wording import format_time

Row = Mapping[str, Any]  # a dotted name is a path into nested mappings

_NO_METRICS = {"trial_id", "status", "epochs", "epoch", "time", "error", "config"}  # of a trial
_UNCOUNTED = ("error", "beyond_limits", "before_epoch")  # of a row whose metrics do not count


@dataclass(frozen=True, slots=True)
class Listed:
    """An experiment as `tuner ls` shows it. best: value of `metric`. total: trials, if known.

    An unreadable folder has status "damaged", and the reason in `problem`.
    """

    name: str
    folder: Path
    status: str
    counts: dict[str, int]
    metric: str | None = None
    mode: str | None = None
    best: float | None = None
    started: float | None = None
    problem: str | None = None
    ended_by: str | None = None
    strategy: str | None = None
    seed: int | None = None
    searched_s: float | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    total: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"folder": ExperimentFolder(self.folder).location}

    def build_row(self) -> dict[str, Any]:
        """The names of `ls --where` and `--sort`; the best value also under its metric's name."""
        may_report = self.best is not None or self.status == RUNNING
        return {
            **({self.metric: self.best} if self.metric and may_report else {}),
            "name": self.name,
            "status": format_status(self.status, self.ended_by),
            "trials": sum(self.counts.values()),
            "total": self.total,
            **self.counts,
            "metric": self.metric,
            "best": self.best,
            "started": None if self.started is None else format_time(self.started),
            "time": self.searched_s,
            "strategy": self.strategy,
            "seed": self.seed,
            "tags": list(self.tags),
            "note": self.note,
        }


def list_experiments(storage: Path | str | None = None) -> list[Listed]:
    """Every experiment under `storage`, oldest first; folders of other kinds are passed over."""
    return sort_oldest_first(
        summarize_experiment(folder) for folder in find_experiment_folders(storage)
    )


def find(
    listed: Sequence[Listed],
    *,
    where: str | None = None,
    tag: str | None = None,
    strategy: str | None = None,
    sort: str | None = None,
    reverse: bool = False,
) -> list[Listed]:
    """Those that `tuner ls` shows when asked so; raises UsageError as `rows.select_rows` does."""
    order = select_rows(
        [entry.build_row() for entry in listed], where=where, sort=sort, reverse=reverse
    )
    return [
        entry
        for entry in (listed[number] for number in order)
        if (tag is None or tag in entry.tags) and (strategy in (None, entry.strategy))
    ]


def sort_oldest_first(listed: Iterable[Listed]) -> list[Listed]:
    return sorted(listed, key=lambda entry: (entry.started or inf, entry.name))


def summarize_experiment(folder: Path, read: Callable[[Path], Results] = Results) -> Listed:
    """One experiment. read: its results, if the journal's last line does not summarise them."""
    try:
        experiment = Described(folder)
        end = read_last_event(folder) or {}
        if end.get("event") == EXPERIMENT_ENDED and end.get("counts"):
            return _build_listed(experiment, end["status"], end, until=end["time"])
        results = read(folder)
        history = results.history
        summary = {**history.summarize(count_planned_trials(results)), "reason": results.ended_by}
        until = history.runs[-1].ended if history.runs else None
        return _build_listed(results, results.status, summary, until=until)
    except Exception as error:  # the others are listed all the same
        problem = str(error) if isinstance(error, TunerError) else repr(error)
        counts = dict.fromkeys(COUNTED, 0)
        return Listed(folder.name, folder, "damaged", counts, problem=problem)


def _build_listed(
    experiment: Described, status: str, summary: Mapping[str, Any], *, until: float | None
) -> Listed:
    """An experiment by a `History.summarize`; until: when its last event came."""
    search = experiment.document["spec"].get("search")
    is_known = isinstance(search, Mapping)  # this version may not be able to read the spec
    best = summary.get("best")
    started = summary.get("started")
    searched_s = None
    if started is not None and until is not None:
        searched_s = until - started - summary.get("idle_s", 0)
    return Listed(
        name=experiment.folder.name,
        folder=experiment.folder,
        status=status,
        counts={status: summary["counts"].get(status, 0) for status in COUNTED},
        metric=experiment.metric,
        mode=experiment.mode,
        best=best and best["metrics"].get(experiment.metric),
        started=started,
        ended_by=summary.get("reason"),
        strategy=choose_strategy(experiment.document["spec"]) if is_known else "",
        seed=experiment.seed,
        searched_s=searched_s,
        tags=experiment.labels.tags,
        note=experiment.labels.note,
        total=summary.get("total"),
    )


def count_planned_trials(experiment: Described) -> int | None:
    """How many trials the spec gives; None if that is not known."""
    spec = experiment.document["spec"]
    try:
        return build_spec({k: spec[k] for k in ("search", "num_samples") if k in spec}).trials
    except SpecError:  # of another version, or without a number
        return spec["num_samples"] if type(spec.get("num_samples")) is int else None


def select_rows(
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
        numbers = [number for number in numbers if condition.is_true(rows[number])]
    if sort is None:
        return numbers[::-1] if reverse else numbers
    check_names([sort], rows)  # of all rows: those that are left may lack it
    values = {number: find_value(rows[number], sort) for number in numbers}
    present = [number for number in numbers if values[number] is not None]
    lacking = [number for number in numbers if values[number] is None]
    return [*sorted(present, key=lambda n: _build_sort_key(values[n]), reverse=reverse), *lacking]


def select_trial_rows(
    rows: Sequence[Row], *, where: str | None = None, sort: str | None = None, reverse: bool = False
) -> list[int]:
    """`select_rows` for trials: of a metric, values that are never the best come last."""
    order = select_rows(rows, where=where, sort=sort, reverse=reverse)
    is_metric = any(sort in row.keys() - row["config"].keys() - _NO_METRICS for row in rows)
    if not is_metric:
        return order
    return sorted(order, key=lambda n: any(rows[n].get(name) for name in _UNCOUNTED))


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
            near = suggest_similar(name, paths, 3)  # `available` leaves out those with a dot
            available = ", ".join(path for path in paths if "." not in path)
            raise UsageError(f"no name {name!r} here{near}; available: {available}")


def _list_paths(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{below}" for below in _list_paths(value))


def build_trial_rows(results: Results) -> list[dict[str, Any]]:
    return [build_trial_row(results, trial) for trial in results.trials.values()]


def build_trial_row(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """A trial's id, status, epochs, best epoch, time (seconds), error and config.

    `beyond_limits`: no report keeps the limits. `before_epoch`: that one must be of this epoch.

    Metrics of the best epoch and hyperparameters have their names, unless these are taken.
    """
    objective = results.objective
    best = find_best_report(trial, objective)
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
        **({"beyond_limits": True} if trial.is_beyond(objective) else {}),
        **({"before_epoch": objective.from_epoch} if trial.is_early(objective) else {}),
    }


def describe_trial(results: Results, trial: TrialRecord) -> dict[str, Any]:
    """What `trials --trial --json` shows: its row, what its failure says, and its reports."""
    message = trial.error.message if trial.error else None
    reports = [{"epoch": report.epoch, **report.metrics} for report in trial.results]
    return {**build_trial_row(results, trial), "message": message, "reports": reports}
