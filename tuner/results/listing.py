"""The experiments of a storage folder, each in a line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from tuner.errors import TunerError
from tuner.record.folder import ExperimentFolder
from tuner.record.storage import experiment_folders
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

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `ls --json` says of it."""
        return asdict(self) | {"folder": ExperimentFolder(self.folder).location}


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
    results = Results(folder)
    best = results.history.best
    return Listed(
        name=folder.name,
        folder=folder,
        status=results.status,
        counts=results.counts,
        metric=results.metric,
        best=best and best.value,
        started=results.history.started,
        ended_by=results.ended_by,
    )
