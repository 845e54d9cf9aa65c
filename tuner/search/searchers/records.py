"""What a searcher keeps of trials: config, reports and end of each, as plain values and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tuner.space.domains import Value
from tuner.space.encoding import config_key

RUNNING, ENDED, FAILED, LOST = "running", "ended", "failed", "lost"


@dataclass(slots=True)
class Record:
    """One trial as a searcher knows it.

    origin: why its config was tried: initial, random, model, told, or warm: evaluated before, or
    suggested by the model of what was.
    reports: epoch -> value of the metric, finite; epoch 0 stands for a whole trial. status:
    running, ended, failed (a config to avoid), or lost (nothing was learned about its config).
    """

    config: dict[str, Value]
    origin: str
    status: str = RUNNING
    reports: dict[int, float] = field(default_factory=dict)
    broken: bool = False  # its latest report was not a finite number

    def report(self, value: Any, epoch: Any = None) -> None:
        """Take the value of `epoch`; of the next one, where that is not a number from 1 on."""
        number = isinstance(epoch, int | float) and not isinstance(epoch, bool)
        if not number or not 1 <= epoch < math.inf:
            epoch = max(self.reports, default=0) + 1
        self.take(value, int(epoch))

    def take(self, value: Any, epoch: int = 0) -> None:
        """Take the value of an epoch, or of the whole trial."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        self.broken = not math.isfinite(number)
        if not self.broken:
            self.reports[epoch] = number

    def end(self, *, error: bool = False, lost: bool = False) -> None:
        """It is over; where its last report was not a finite number, its config is at fault."""
        self.status = FAILED if error or self.broken else LOST if lost else ENDED


class Records:
    """The trials of a search by their ids, and those of other runs, which come before them."""

    def __init__(self) -> None:
        self.own: dict[str, Record] = {}
        self.warm: list[Record] = []

    def __iter__(self) -> Iterator[Record]:
        yield from self.warm
        yield from self.own.values()

    def running(self, trial_id: str) -> Record | None:
        """The trial, if it is one of the search's own and is not over."""
        record = self.own.get(trial_id)
        return record if record is not None and record.status == RUNNING else None

    def tried(self) -> set[str]:
        """Keys of the configs that must not come again: of all trials, but for lost ones."""
        return {config_key(record.config) for record in self if record.status != LOST}

    def state(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return {
            "trials": {trial_id: asdict(record) for trial_id, record in self.own.items()},
            "warm": [asdict(record) for record in self.warm],
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Records:
        """The records that had this state."""
        records = cls()
        records.own = {trial_id: _record(raw) for trial_id, raw in state["trials"].items()}
        records.warm = [_record(raw) for raw in state["warm"]]
        return records


def _record(raw: Mapping[str, Any]) -> Record:
    reports = {int(epoch): value for epoch, value in raw["reports"].items()}
    return Record(**{**raw, "reports": reports})
