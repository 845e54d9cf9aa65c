"""How long a search still takes. Pure: the time is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.history import History
from tuner.spec.experiment import ExperimentSpec

_WEIGHT = 4  # trials that the scheduler's expectation counts as, beside the trials that are over


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """What is known of a search before it runs.

    total: trials to run, None if unknown. max_t: upper bound of a trial in epochs. depth: epochs
    that the scheduler lets a trial last on average, None to go by those seen. budget_s: seconds
    after which the search ends.
    """

    total: int | None
    max_t: int | None
    depth: float | None = None
    budget_s: float | None = None

    @classmethod
    def of(cls, spec: ExperimentSpec, history: History) -> TimeLeft:
        """What the spec and the controls up to now say."""
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
        """The epochs to go at the pace since the last start, or the longest trial on its own."""
        pace, trials = history.pace, list(history.trials.values())
        over = [trial.last_epoch for trial in trials if trial.status in (COMPLETED, STOPPED)]
        depth = self._depth(over)
        if self.total is None or depth is None or pace.first_trial is None or not pace.epochs:
            return None
        going = [trial for trial in trials if trial.status in (RUNNING, INTERRUPTED)]
        rests = [self._rest(trial.last_epoch, depth) for trial in going]
        epochs = max(0, self.total - len(trials)) * depth + sum(rests)
        alone = [
            rest * trial.duration_s / trial.last_epoch
            for trial, rest in zip(going, rests, strict=True)
            if trial.last_epoch
        ]
        an_epoch = max(0.0, latest(history, now) - pace.first_trial) / pace.epochs
        return max([epochs * an_epoch, *alone])

    def _depth(self, over: Sequence[int]) -> float | None:
        """The epochs that a trial lasts on average."""
        if self.depth is not None:
            return (self.depth * _WEIGHT + sum(over)) / (_WEIGHT + len(over))
        return sum(over) / len(over) if over else self.max_t

    def _rest(self, epoch: int, depth: float) -> float:
        """The epochs to go of a trial at `epoch`: to the average, beyond it to the end."""
        end = depth if epoch < depth or self.max_t is None else self.max_t
        return max(0.0, end - epoch)


def elapsed_s(history: History, now: float) -> float:
    """Seconds that drivers have searched, `now` by the last one's clock; 0 before the first."""
    if not history.runs:
        return 0.0
    return history.duration_s + latest(history, now) - history.runs[-1].ended


def done(history: History) -> int:
    """How many trials are over: completed, stopped or failed."""
    return sum(history.counts[status] for status in (COMPLETED, STOPPED, FAILED))


def latest(history: History, now: float) -> float:
    """`now`, or the time of the last event if a clock is behind it."""
    return max(now, history.runs[-1].ended) if history.runs else now
