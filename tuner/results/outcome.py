"""What an experiment came to, in a few numbers, for which `tuner ls` reads each journal once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import CheckpointError, SpecError
from tuner.places import cache_folder
from tuner.record.checkpoints import sha256_of
from tuner.record.events import EXPERIMENT_STATUSES, RUNNING
from tuner.record.files import EXPERIMENT, JOURNAL, encode, read_json, replace_file
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


def outcome_of(files: ExperimentFolder) -> tuple[Described, Outcome]:
    """What an experiment's folder says, and what its journal comes to.

    The journal is not read where this user has read it before: a file of the cache, named after the
    digests of spec and journal, knows what it comes to. Not so while it has a driver, or lies in an
    object store, where to ask whether it is the same takes as long. Raises as `Results` does.
    """
    known = None if files.is_remote or files.is_driven else _cached(files.path)
    if known and (outcome := _kept(known)):
        return Described(files.path), outcome
    results, outcome = _read(files.path)
    if known and outcome.status != RUNNING:
        with suppress(OSError):  # the next reads the journal, too
            known.parent.mkdir(parents=True, exist_ok=True)
            data = encode(asdict(outcome))
            replace_file(known, lambda partial: partial.write_bytes(data))
    return results, outcome


def _cached(folder: Path) -> Path | None:
    """The file of the cache for what lies in `folder` now; None where that cannot be read."""
    with suppress(CheckpointError):
        digests = (sha256_of(folder / name)[:32] for name in (EXPERIMENT, JOURNAL))
        return cache_folder() / "outcomes" / "-".join(digests)
    return None


def _read(folder: Path) -> tuple[Results, Outcome]:
    results = Results(folder)
    return results, Outcome.of(results)


def _kept(path: Path) -> Outcome | None:
    """The outcome in a file of the cache; None where there is none, or another version's."""
    try:
        outcome = Outcome(**read_json(path))
    except (OSError, ValueError, TypeError):
        return None
    return outcome if _is_plausible(outcome) else None


def _is_plausible(outcome: Outcome) -> bool:
    """Whether every field has the type that it should."""
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
    """The number of trials asked for, or of the grid's cells, and of configs to try beside them."""
    asked = results.document["spec"].get("num_samples")
    if type(asked) is int or strategy_of(results) != "grid":
        return results.history.total(asked if type(asked) is int else None)
    try:
        return results.history.total(results.spec.trials)
    except SpecError:  # of another version
        return None


def strategy_of(described: Described) -> str:
    """The strategy of an experiment whose spec this version may not be able to read."""
    search = described.document["spec"].get("search")
    return str(search.get("strategy", "random")) if isinstance(search, Mapping) else ""
