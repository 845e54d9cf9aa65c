"""An estimate of how long a search still takes. Pure: the time is given."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.record.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.record.history import History, TrialRecord
from tuner.spec.experiment import ExperimentSpec

_WEIGHT = 4  # trials that the rungs' expectation counts as, beside the trials that are over


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """What is known of a search before it runs.

    total: trials to run, None if unknown. max_t: upper bound of a trial in epochs. depth: epochs
    that a trial is expected to last, None to go by those seen. slots: trials that run side by side,
    None to go by those seen.
    """

    total: int | None
    max_t: int | None
    depth: float | None = None
    slots: int | None = None

    @classmethod
    def of(cls, spec: ExperimentSpec, *, slots: int | None = None) -> TimeLeft:
        """What the spec says of it."""
        scheduler, depth = spec.scheduler, None
        if scheduler and spec.epochs == scheduler.max_t:
            depth = scheduler.expected_epochs(spec.brackets)
        return cls(spec.trials, spec.epochs, depth, slots)

    def seconds(self, history: History, now: float) -> float | None:
        """An estimate of the seconds left; None if there is nothing to estimate from.

        Trials to come are taken to last as many epochs as those that are over and the rungs say
        (max_t, if neither does); a running trial that has outlived that, up to max_t. The pace is
        that of the epochs since the driver's last start, but no trial's rest goes faster than one
        trial does.
        """
        pace = history.pace
        trials = list(history.trials.values())
        depth = self._depth(trials)
        if self.total is None or depth is None or pace.first_trial is None:
            return None
        if history.status != RUNNING or not pace.epochs:
            return None
        rests = [self._rest(t, depth) for t in trials if t.status in (RUNNING, INTERRUPTED)]
        to_come = max(0, self.total - len(trials))
        seconds_an_epoch = max(0.0, latest(history, now) - pace.first_trial) / pace.epochs
        slots = self.slots or max(1, pace.side_by_side)
        longest = max([*rests, depth if to_come else 0.0], default=0.0)
        return seconds_an_epoch * max(sum(rests) + to_come * depth, longest * slots)

    def _depth(self, trials: list[TrialRecord]) -> float | None:
        over = [t.last_epoch for t in trials if t.status in (COMPLETED, STOPPED)]
        if self.depth is not None:
            return (self.depth * _WEIGHT + sum(over)) / (_WEIGHT + len(over))
        return sum(over) / len(over) if over else self.max_t

    def _rest(self, trial: TrialRecord, depth: float) -> float:
        if trial.last_epoch < depth:
            return depth - trial.last_epoch
        return 1.0 if self.max_t is None else max(0.0, self.max_t - trial.last_epoch)


def elapsed_s(history: History, now: float) -> float:
    """Seconds since the driver's last start, `now` by its clock; 0 before the first start."""
    return latest(history, now) - history.runs[-1].started if history.runs else 0.0


def done(history: History) -> int:
    """How many trials are over: completed, stopped or failed."""
    return sum(history.counts[status] for status in (COMPLETED, STOPPED, FAILED))


def latest(history: History, now: float) -> float:
    """`now`, or the time of the last event if a clock is behind it."""
    return max(now, history.runs[-1].ended) if history.runs else now
