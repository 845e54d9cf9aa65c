"""What an experiment came to, in a few numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tuner.errors import SpecError
from tuner.experiment.results.described import Described
from tuner.spec.experiment import build_spec


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


def trials_of(described: Described) -> int | None:
    """How many trials the spec gives; None if that is not known."""
    spec = described.document["spec"]
    fields = {name: spec[name] for name in ("search", "num_samples") if name in spec}
    return _trials(json.dumps(fields))


@lru_cache(maxsize=1024)  # to check a spec takes milliseconds
def _trials(fields: str) -> int | None:
    raw = json.loads(fields)
    try:
        return build_spec(raw).trials
    except SpecError:  # of another version, or without a number
        return raw["num_samples"] if type(raw.get("num_samples")) is int else None


def strategy_of(described: Described) -> str:
    """The strategy of an experiment whose spec this version may not be able to read."""
    search = described.document["spec"].get("search")
    return str(search.get("strategy", "random")) if isinstance(search, Mapping) else ""
