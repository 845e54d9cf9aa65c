"""The experiments of a storage folder, in rows of named values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from tuner.errors import SpecError, TunerError
from tuner.experiment.events import COUNTED, EXPERIMENT_ENDED, RUNNING, format_status
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.reading import read_last_event
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import select_rows
from tuner.experiment.storage import find_experiment_folders
from tuner.spec.experiment import build_spec
from tuner.spec.strategies import choose_strategy
from tuner.wording import format_time


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
    """Those that the options of `tuner ls` choose, sorted. Raises UsageError as `select_rows`."""
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


def summarize_experiment(
    folder: Path, read: Callable[[Path], Results] = Results
) -> Listed:
    """One experiment. read: its results, if the journal's last line does not summarise them."""
    try:
        experiment = Described(folder)
        end = read_last_event(folder) or {}
        if end.get("event") == EXPERIMENT_ENDED and end.get("counts"):
            return _build_listed(experiment, end["status"], end, until=end["time"])
        results = read(folder)
        history = results.history
        summary = {
            **history.summarize(count_planned_trials(results)),
            "reason": results.ended_by,
        }
        until = history.runs[-1].ended if history.runs else None
        return _build_listed(results, results.status, summary, until=until)
    except Exception as error:  # the others are listed all the same
        problem = str(error) if isinstance(error, TunerError) else repr(error)
        counts = dict.fromkeys(COUNTED, 0)
        return Listed(folder.name, folder, "damaged", counts, problem=problem)


def _build_listed(
    experiment: Described,
    status: str,
    summary: Mapping[str, Any],
    *,
    until: float | None,
) -> Listed:
    """An experiment by a `History.summarize`; until: when its last event came."""
    search = experiment.document["spec"].get("search")
    # This version may not be able to read the spec
    is_known = isinstance(search, Mapping)
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
        return build_spec(
            {k: spec[k] for k in ("search", "num_samples") if k in spec}
        ).trials
    except SpecError:  # of another version, or without a number
        return spec["num_samples"] if type(spec.get("num_samples")) is int else None
