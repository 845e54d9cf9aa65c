"""How long a search still takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.history import History
from tuner.spec.experiment import ExperimentSpec

_WEIGHT = 4  # trials that the scheduler's expectation counts for


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """What a spec says about the length of a search.

    total: trials to run, None if unknown. max_t: upper bound of a trial in epochs. depth: epochs
    that a trial lasts on average by its scheduler, if known. budget_s: seconds after which the
    search ends.
    """

    total: int | None
    max_t: int | None
    depth: float | None = None
    budget_s: float | None = None

    @classmethod
    def of(cls, spec: ExperimentSpec, history: History) -> TimeLeft:
        """By the spec and the controls up to now."""
        scheduler, depth = spec.scheduler, None
        if scheduler and spec.epochs == scheduler.max_t:
            depth = scheduler.expected_epochs(spec.brackets)
        return cls(history.total(spec.trials), spec.epochs, depth, spec.time_budget_s)

    def seconds(self, history: History, now: float) -> float | None:
        """The seconds left; None if there is nothing to estimate from."""
        if history.status != RUNNING or history.steered.paused:
            return None
        left = self._by_pace(history, now)
        if self.budget_s is None or not history.runs:
            return left
        rest = max(0.0, self.budget_s - (latest(history, now) - history.runs[-1].started))
        return rest if left is None else min(left, rest)

    def _by_pace(self, history: History, now: float) -> float | None:
        """The seconds of the remaining epochs at the pace since the last start."""
        pace, trials = history.pace, list(history.trials.values())
        depth = self._depth([t.last_epoch for t in trials if t.status in (COMPLETED, STOPPED)])
        if self.total is None or depth is None or pace.first_trial is None or not pace.epochs:
            return None
        epochs = max(0, self.total - len(trials)) * depth
        for trial in trials:
            if trial.status in (RUNNING, INTERRUPTED):
                end = depth if trial.last_epoch < depth else self.max_t or depth
                epochs += max(0.0, end - trial.last_epoch)
        return epochs * max(0.0, latest(history, now) - pace.first_trial) / pace.epochs

    def _depth(self, ended: Sequence[int]) -> float | None:
        """The epochs that a trial lasts on average. ended: those of trials that have ended."""
        if self.depth is not None:
            return (self.depth * _WEIGHT + sum(ended)) / (_WEIGHT + len(ended))
        return sum(ended) / len(ended) if ended else self.max_t


def elapsed_s(history: History, now: float) -> float:
    """Seconds of searching, over all drivers."""
    if not history.runs:
        return 0.0
    return history.duration_s + latest(history, now) - history.runs[-1].ended


def done(history: History) -> int:
    """How many trials are completed, stopped or failed."""
    return sum(history.counts[status] for status in (COMPLETED, STOPPED, FAILED))


def latest(history: History, now: float) -> float:
    """`now`, or the time of the last event if a clock is behind it."""
    return max(now, history.runs[-1].ended) if history.runs else now
