"""Where the trials of a search ran side by side, and when a place stood idle. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from tuner.experiment.history import History
from tuner.experiment.trials import Run


class Stay(NamedTuple):
    """A run of a trial, and the slot, from 0 on, that it is shown in."""

    slot: int
    trial_id: str
    run: Run


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The runs of a search's trials in as many slots as ran side by side at most.

    slots: their number. A search that reserved room for more than it ever used shows no slot for
    that. stays: every run, by its start. wall_s: seconds in which a driver ran, without the gaps
    between a kill and its resume.
    """

    slots: int
    stays: tuple[Stay, ...]
    wall_s: float

    @property
    def busy_s(self) -> float:
        """Seconds that trials ran, summed over the slots."""
        return fsum(stay.run.duration_s for stay in self.stays)

    @property
    def idle_s(self) -> float:
        """Seconds in which a slot was empty while a driver ran, summed over the slots."""
        return max(0.0, self.slots * self.wall_s - self.busy_s)

    @property
    def busy_share(self) -> float | None:
        """The share of the slots' time in which trials ran, 0 to 1; None where there is no time."""
        total = self.slots * self.wall_s
        return min(1.0, self.busy_s / total) if total > 0 else None


def occupancy_of(history: History) -> Occupancy:
    """The slots of a search: each run is put into the first one that is free when it starts."""
    free_at: list[float] = []
    stays = []
    runs = [(trial.trial_id, run) for trial in history.trials.values() for run in trial.runs]
    for trial_id, run in sorted(runs, key=lambda entry: (entry[1].started, int(entry[0]))):
        slot = next((s for s, time in enumerate(free_at) if time <= run.started), len(free_at))
        free_at[slot : slot + 1] = [run.ended]
        stays.append(Stay(slot, trial_id, run))
    return Occupancy(len(free_at), tuple(stays), fsum(run.duration_s for run in history.runs))
