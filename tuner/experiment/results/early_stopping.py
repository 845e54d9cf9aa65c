"""What the scheduler stopped, at which rung and when, and what that saved. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tuner.experiment.events import STOPPED
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Resources


@dataclass(frozen=True, slots=True)
class RungCount:
    """How many trials came to the rung at `epoch`, and how many of them were stopped there."""

    epoch: int
    reached: int
    stopped: int


@dataclass(frozen=True, slots=True)
class Stop:
    """A trial that the scheduler stopped.

    epoch: the last one that it trained. time: of its end, in seconds since the epoch. epochs,
    seconds: what was left of its full length, at the trial's own mean pace.
    """

    trial_id: str
    epoch: int
    time: float
    epochs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Savings:
    """What early stopping came to.

    rungs: ascending, those of all brackets. stops: in the order in which they came.
    trained_epochs: those of all trials, stopped or not. resources: what each trial reserved.
    """

    rungs: tuple[RungCount, ...]
    stops: tuple[Stop, ...]
    trained_epochs: int
    resources: Resources

    @property
    def epochs(self) -> int:
        """Epochs that the stopped trials did not train."""
        return sum(stop.epochs for stop in self.stops)

    @property
    def share(self) -> float | None:
        """Of the epochs that would have been trained without stopping, the share that was saved."""
        total = self.trained_epochs + self.epochs
        return self.epochs / total if total else None

    @property
    def cpu_hours(self) -> float:
        """Hours of one CPU, at each stopped trial's own pace."""
        return self._hours(self.resources.cpus)

    @property
    def gpu_hours(self) -> float:
        """Hours of one GPU, at each stopped trial's own pace."""
        return self._hours(self.resources.gpus)

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `report --format json` says of it."""
        return {
            "trained_epochs": self.trained_epochs,
            "saved_epochs": self.epochs,
            "saved_share": self.share,
            "saved_cpu_hours": self.cpu_hours,
            "saved_gpu_hours": self.gpu_hours,
            "rungs": [asdict(rung) for rung in self.rungs],
            "stopped": [
                {"trial_id": s.trial_id, "epoch": s.epoch, "time": s.time} for s in self.stops
            ],
        }

    def _hours(self, devices: float) -> float:
        seconds = math.fsum(stop.seconds for stop in self.stops)
        return seconds / 3600 * devices * self.resources.ranks


def savings_of(spec: ExperimentSpec, trials: Iterable[TrialRecord]) -> Savings | None:
    """What the scheduler of `spec` saved on these trials; None where it has none."""
    scheduler, length = spec.scheduler, spec.epochs
    if scheduler is None or length is None:
        return None
    trials = list(trials)
    ended = sorted(
        (trial for trial in trials if _is_stopped_early(trial) and trial.ended is not None),
        key=lambda trial: (trial.ended, int(trial.trial_id)),
    )
    epochs = (math.ceil(epoch) for epoch in scheduler.rungs() if epoch < length)
    return Savings(
        rungs=tuple(_rung(epoch, trials) for epoch in dict.fromkeys(epochs)),
        stops=tuple(_stop(trial, length) for trial in ended),
        trained_epochs=sum(trial.last_epoch for trial in trials),
        resources=spec.resources,
    )


def _rung(epoch: int, trials: Iterable[TrialRecord]) -> RungCount:
    reached = [trial for trial in trials if trial.last_epoch >= epoch]
    stopped = sum(_is_stopped_early(trial) and trial.last_epoch == epoch for trial in reached)
    return RungCount(epoch, len(reached), stopped)


def _is_stopped_early(trial: TrialRecord) -> bool:
    """Whether the search has stopped it, and nobody who asked for its end."""
    return trial.status == STOPPED and trial.ended_by is None


def _stop(trial: TrialRecord, length: int) -> Stop:
    left = max(0, length - trial.last_epoch)
    pace_s = trial.duration_s / max(1, trial.last_epoch)
    assert trial.ended is not None
    return Stop(trial.trial_id, trial.last_epoch, trial.ended, left, left * pace_s)
