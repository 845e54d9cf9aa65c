"""What an experiment came to, in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.errors import SpecError
from tuner.results.described import Described


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an experiment stands, by its journal.

    counts: trials of each status. best: the best value of the objective. started: in seconds since
    the epoch. searched_s: seconds that a driver ran. ended_by: what ended it before its trials did.
    total: trials that it was to run, None if that is not known.
    """

    status: str
    counts: dict[str, int]
    best: int | float | None
    started: float | None
    searched_s: float
    ended_by: str | None
    total: int | None


def asked_of(described: Described) -> int | None:
    """The number of trials asked for, or of the grid's cells; None if that is not known."""
    asked = described.document["spec"].get("num_samples")
    if type(asked) is int or strategy_of(described) != "grid":
        return asked if type(asked) is int else None
    try:
        return described.spec.trials
    except SpecError:  # of another version
        return None


def strategy_of(described: Described) -> str:
    """The strategy of an experiment whose spec this version may not be able to read."""
    search = described.document["spec"].get("search")
    return str(search.get("strategy", "random")) if isinstance(search, Mapping) else ""
