"""The experiments of a storage folder, each in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from tuner.errors import TunerError
from tuner.experiment.events import RUNNING, standing_of
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.known import look_at
from tuner.experiment.results.outcome import strategy_of
from tuner.experiment.results.results import COUNTED, Results
from tuner.experiment.results.rows import arranged
from tuner.experiment.storage import experiment_folders
from tuner.wording import moment


@dataclass(frozen=True, slots=True)
class Listed:
    """One experiment as `tuner ls` shows it; `best` is its best value of `metric`.

    `status` is "damaged", with why in `problem`, where the folder cannot be read. total: trials
    that it is to run, None if that is not known.
    """

    name: str
    folder: Path
    status: str
    counts: dict[str, int]
    metric: str | None = None
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
        """As plain values: what `ls --json` says of it."""
        return asdict(self) | {"folder": ExperimentFolder(self.folder).location}

    def row(self) -> dict[str, Any]:
        """What `ls --where` and `--sort` know of it: its best under its metric's name, too.

        A metric that no trial has reported by the end is likely mistyped, so it is no name.
        """
        may_report = self.best is not None or self.status == RUNNING
        return {
            **({self.metric: self.best} if self.metric and may_report else {}),
            "name": self.name,
            "status": standing_of(self.status, self.ended_by),
            "trials": sum(self.counts.values()),
            "total": self.total,
            **self.counts,
            "metric": self.metric,
            "best": self.best,
            "started": None if self.started is None else moment(self.started),
            "time": self.searched_s,
            "strategy": self.strategy,
            "seed": self.seed,
            "tags": list(self.tags),
            "note": self.note,
        }


def list_experiments(storage: Path | str | None = None) -> list[Listed]:
    """Every experiment under `storage`, oldest first; folders of other kinds are passed over."""
    return oldest_first(listed(folder) for folder in experiment_folders(storage))


def find(
    listed: Sequence[Listed],
    *,
    where: str | None = None,
    tag: str | None = None,
    strategy: str | None = None,
    sort: str | None = None,
    reverse: bool = False,
) -> list[Listed]:
    """Those that `tuner ls` shows when asked so; raises UsageError as `rows.arranged` does."""
    order = arranged([one.row() for one in listed], where=where, sort=sort, reverse=reverse)
    return [
        listed[number]
        for number in order
        if (tag is None or tag in listed[number].tags)
        and (strategy is None or listed[number].strategy == strategy)
    ]


def oldest_first(listed: Iterable[Listed]) -> list[Listed]:
    """In the order of their starts."""
    return sorted(listed, key=lambda entry: (entry.started or inf, entry.name))


def listed(folder: Path, read: Callable[[Path], Results] | None = None) -> Listed:
    """One experiment; whatever its folder holds, it is listed.

    read: gives its results; None: a journal that was read before is not read again.
    """
    try:
        return _listed((read or look_at)(folder))
    except Exception as error:  # the others are listed all the same
        problem = str(error) if isinstance(error, TunerError) else repr(error)
        counts = dict.fromkeys(COUNTED, 0)
        return Listed(folder.name, folder, "damaged", counts, problem=problem)


def _listed(results: Results) -> Listed:
    outcome = results.outcome
    return Listed(
        name=results.folder.name,
        folder=results.folder,
        **{field.name: getattr(outcome, field.name) for field in fields(outcome)},
        metric=results.metric,
        strategy=strategy_of(results),
        seed=results.seed,
        tags=results.labels.tags,
        note=results.labels.note,
    )
