"""What an experiment came to, in a few numbers, which `tuner ls` need not read the journal for.

The driver writes them when its search ends, with the journal's digest: where that is another one,
the journal is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, SpecError
from tuner.record.checkpoints import sha256_of
from tuner.record.events import EXPERIMENT_STATUSES
from tuner.record.files import JOURNAL, OUTCOME
from tuner.record.folder import ExperimentFolder
from tuner.results.described import Described
from tuner.results.results import COUNTED, Results


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an experiment stands, by its journal.

    counts: trials of each status. best: the best value of the objective. started: in seconds since
    the epoch. searched_s: seconds that a driver ran. ended_by: what ended it before its trials did.
    total: trials that it was to run, None if that is not known.
    """

    status: str
    counts: dict[str, int]
    best: float | None
    started: float | None
    searched_s: float
    ended_by: str | None
    total: int | None

    @classmethod
    def of(cls, results: Results) -> Outcome:
        """What the journal of `results` comes to."""
        history = results.history
        return cls(
            status=results.status,
            counts=results.counts,
            best=history.best and history.best.value,
            started=history.started,
            searched_s=history.duration_s,
            ended_by=results.ended_by,
            total=_total(results),
        )

    def write(self, files: ExperimentFolder) -> None:
        """Write it beside the journal that it was read from. Raises OSError.

        Of an experiment in an object store nothing is written: to fetch it would take as long as to
        ask whether the journal is the same.
        """
        if not files.is_remote:
            files.write(OUTCOME, {"journal": _digest(files.path), **asdict(self)})


def keep_outcome(results: Results) -> None:
    """Write the outcome of a search that has ended; where that fails, `ls` reads the journal."""
    with suppress(OSError):
        Outcome.of(results).write(results.files)


def written_outcome(files: ExperimentFolder) -> Outcome | None:
    """The outcome in an experiment's folder; None where it is missing, damaged, or another's.

    It is another's where the journal is not the one that it was written for, or has a driver.
    """
    if files.is_remote or files.is_driven:
        return None
    try:
        document = files.read(OUTCOME)
        if document.pop("journal") != _digest(files.path):
            return None
        outcome = Outcome(**document)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, CheckpointError):
        return None
    return outcome if _is_plausible(outcome) else None


def _is_plausible(outcome: Outcome) -> bool:
    """Whether every field has the type that it should: the folder may be someone else's."""
    counts = outcome.counts
    return (
        outcome.status in EXPERIMENT_STATUSES
        and isinstance(counts, dict)
        and tuple(counts) == COUNTED
        and all(type(count) is int for count in counts.values())
        and all(_is_number(value) for value in (outcome.best, outcome.started, outcome.total))
        and outcome.searched_s is not None
        and _is_number(outcome.searched_s)
        and isinstance(outcome.ended_by, str | None)
    )


def _is_number(value: Any) -> bool:
    return value is None or type(value) in (int, float)


def _total(results: Results) -> int | None:
    """The number of trials asked for, or of the grid's cells."""
    asked = results.document["spec"].get("num_samples")
    if type(asked) is int or strategy_of(results) != "grid":
        return asked if type(asked) is int else None
    try:
        return results.spec.trials
    except SpecError:  # of another version
        return None


def strategy_of(described: Described) -> str:
    """The strategy of an experiment whose spec this version may not be able to read."""
    search = described.document["spec"].get("search")
    return str(search.get("strategy", "random")) if isinstance(search, Mapping) else ""


def _digest(folder: Path) -> str:
    return sha256_of(folder / JOURNAL)
