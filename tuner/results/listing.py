"""The experiments of a storage folder, each in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

from tuner.errors import TunerError
from tuner.record.events import standing_of
from tuner.record.folder import ExperimentFolder
from tuner.record.storage import experiment_folders
from tuner.results.described import Described
from tuner.results.outcome import Outcome, written_outcome
from tuner.results.results import COUNTED, Results


@dataclass(frozen=True, slots=True)
class Listed:
    """One experiment as `tuner ls` shows it; `best` is its best value of `metric`.

    `status` is "damaged", with why in `problem`, where the folder cannot be read.
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

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `ls --json` says of it."""
        return asdict(self) | {"folder": ExperimentFolder(self.folder).location}

    def row(self) -> dict[str, Any]:
        """What `ls --where` and `--sort` know of it: its best under its metric's name, too."""
        started = self.started and datetime.fromtimestamp(self.started).isoformat(" ", "minutes")
        return {
            **({self.metric: self.best} if self.metric else {}),
            "name": self.name,
            "status": standing_of(self.status, self.ended_by),
            "trials": sum(self.counts.values()),
            **self.counts,
            "metric": self.metric,
            "best": self.best,
            "started": started,
            "time": self.searched_s,
            "strategy": self.strategy,
            "seed": self.seed,
            "tags": list(self.tags),
            "note": self.note,
        }


def list_experiments(storage: Path | str | None = None) -> list[Listed]:
    """Every experiment under `storage`, oldest first; folders of other kinds are passed over."""
    listed = [_listed(folder) for folder in experiment_folders(storage)]
    return sorted(listed, key=lambda entry: (entry.started or inf, entry.name))


def _listed(folder: Path) -> Listed:
    try:
        return _read(folder)
    except Exception as error:  # whatever one folder holds, the others are listed
        problem = str(error) if isinstance(error, TunerError) else repr(error)
        counts = dict.fromkeys(COUNTED, 0)
        return Listed(folder.name, folder, "damaged", counts, problem=problem)


def _read(folder: Path) -> Listed:
    if outcome := written_outcome(ExperimentFolder(folder)):
        return _entry(Described(folder), outcome)
    results = Results(folder)
    return _entry(results, Outcome.of(results))


def _entry(described: Described, outcome: Outcome) -> Listed:
    return Listed(
        name=described.folder.name,
        folder=described.folder,
        **{field.name: getattr(outcome, field.name) for field in fields(outcome)},
        metric=described.metric,
        strategy=_strategy(described.document["spec"]),
        seed=described.seed,
        tags=described.labels.tags,
        note=described.labels.note,
    )


def _strategy(spec: Mapping[str, Any]) -> str:
    """Of a spec that this version may not be able to read."""
    search = spec.get("search")
    return str(search.get("strategy", "random")) if isinstance(search, Mapping) else ""
