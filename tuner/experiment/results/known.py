"""What `tuner ls`, `show` and `best` tell of a journal that they have read before.

A file of this user's cache, one for each experiment's folder, has it together with what it follows
from: the digests of spec and journal, and the version of this code. Where any of these is another
one, or the file is not as it should be, the journal is read, and the file written anew. It is JSON,
checked against the types below, and replaced whole, so that others may read and write it meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tuner.errors import CheckpointError
from tuner.experiment.checkpoints import sha256_of
from tuner.experiment.events import RUNNING
from tuner.experiment.files import EXPERIMENT, JOURNAL, read_plain, replace_file
from tuner.experiment.folder import ExperimentFolder, mark_here
from tuner.experiment.history import History
from tuner.experiment.results.described import Described
from tuner.experiment.results.outcome import Outcome
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import best_epoch, best_record
from tuner.experiment.results.trouble import Failures
from tuner.experiment.steered import Answer, present
from tuner.experiment.trials import CheckpointRecord, Report, TrialRecord
from tuner.places import cache_folder
from tuner.spec.sections import Objective

_LEADERS = 10  # that are kept: more than most ask for
_LARGEST = 1 << 20  # bytes of a file


@dataclass(frozen=True, slots=True)
class Leader:
    """Of one of the best trials what is shown: its best and its last report, and the one of the
    checkpoint that is handed over, with the checkpoints of these epochs.
    """

    trial_id: str
    started: float
    status: str
    seed: int | None
    config: dict[str, Any]
    reports: list[tuple[int, float, dict[str, int | float]]]
    checkpoints: list[tuple[int, str, str]]

    @classmethod
    def of(cls, trial: TrialRecord, objective: Objective) -> Leader:
        """What is kept of `trial`."""
        record = best_record(trial, objective)
        shown = {best_epoch(trial.values(objective.metric), objective), trial.last_epoch}
        shown |= {record.epoch} if record else set()
        reports: list[Any] = [tuple(r) for r in trial.results if r.epoch in shown]
        checkpoints: list[Any] = [tuple(c) for c in trial.checkpoints if c.epoch in shown]
        return cls(
            trial.trial_id,
            trial.started,
            trial.status,
            trial.seed,
            trial.config,
            reports,
            checkpoints,
        )

    def record(self) -> TrialRecord:
        """The trial, as far as it is kept."""
        return TrialRecord(
            self.trial_id,
            self.started,
            self.config,
            self.status,
            [Report(*report) for report in self.reports],
            [CheckpointRecord(*checkpoint) for checkpoint in self.checkpoints],
            seed=self.seed,
        )


class Known(BaseModel):
    """What a file of the cache holds; `key`: what it follows from."""

    key: str
    outcome: Outcome
    never_started: int | None
    leaders: list[Leader]
    failures: list[Failures]
    changes: list[dict[str, Any]]
    answers: list[Answer]

    @classmethod
    def of(cls, results: Results, key: str) -> Known:
        """What is kept of `results`."""
        return cls.model_construct(
            key=key,
            outcome=results.outcome,
            never_started=results.never_started,
            leaders=[Leader.of(trial, results.objective) for trial in results.top(_LEADERS)],
            failures=results.first_failures,
            changes=results.changes,
            answers=list(results.answers),
        )


class KnownResults(Results):
    """Results of a journal that was read before: it is read only for what is not kept of it."""

    def __init__(self, folder: Path, known: Known) -> None:
        Described.__init__(self, folder)
        self._known = known
        self.document = present(self.document, known.answers)

    @cached_property
    def history(self) -> History:
        return Results(self.folder).history

    @property
    def outcome(self) -> Outcome:
        return self._known.outcome

    @property
    def first_failures(self) -> list[Failures]:
        return self._known.failures

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def ended_by(self) -> str | None:
        return self.outcome.ended_by

    @property
    def counts(self) -> dict[str, int]:
        return self.outcome.counts

    @property
    def started(self) -> float | None:
        return self.outcome.started

    @property
    def searched_s(self) -> float:
        return self.outcome.searched_s

    @property
    def never_started(self) -> int | None:
        return self._known.never_started

    @property
    def changes(self) -> list[dict[str, Any]]:
        return self._known.changes

    @property
    def answers(self) -> Sequence[Answer]:
        return self._known.answers

    def top(
        self,
        k: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "best",
    ) -> list[TrialRecord]:
        """As `Results.top`; of the few that are kept, the reports and checkpoints of `Leader`."""
        leaders = self._known.leaders
        are_enough = len(leaders) < _LEADERS or (k is not None and k <= _LEADERS)
        if are_enough and scope == "best" and self._objective(metric, mode) == self.objective:
            return [leader.record() for leader in leaders[:k]]
        return super().top(k, metric, mode, scope)


def look_at(folder: Path) -> Results:
    """The results of the experiment in `folder`, of which only what is shown may be known.

    They are read where it has a driver, and where it lies in an object store, since to ask whether
    that is the same takes as long. Raises as `Results` does.
    """
    files = ExperimentFolder(folder)
    mark = mark_here(folder)
    key = None if files.is_remote or files.is_driven else _key(folder)
    if key is None:
        return Results(folder)
    place = _place(folder)
    if known := _kept(place, key):
        return KnownResults(folder, known)
    results = Results(folder)
    if results.status != RUNNING and mark_here(folder) == mark:  # `key` is that of what was read
        with suppress(OSError, ValueError):  # the next one reads the journal, too
            _keep(place, Known.of(results, key))
    return results


def _key(folder: Path) -> str | None:
    """What all that is kept follows from; None where that cannot be read."""
    with suppress(CheckpointError):
        return "-".join([_version(), *(sha256_of(folder / name) for name in (EXPERIMENT, JOURNAL))])
    return None


@cache
def _version() -> str:
    """That of this code: the size and the time of each file, by which Python tells, too."""
    root = Path(__file__).parents[1]
    paths = (os.path.join(at, name) for at, _, names in os.walk(root) for name in names)
    found = sorted((path, os.stat(path)) for path in paths if path.endswith(".py"))
    told = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in found]
    return sha256(repr(told).encode()).hexdigest()[:16]


def _place(folder: Path) -> Path:
    name = sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return cache_folder() / "known" / f"{name}.json"


def _kept(place: Path, key: str) -> Known | None:
    """What a file of the cache holds, if it follows from `key`."""
    try:
        known = Known.model_validate_json(read_plain(place), strict=True)
    except (OSError, ValueError):
        return None
    return known if known.key == key else None


def _keep(place: Path, known: Known) -> None:
    data = known.model_dump_json(warnings=False).encode()
    if len(data) <= _LARGEST:
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, lambda partial: partial.write_bytes(data))
