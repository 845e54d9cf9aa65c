"""How long a search still takes, at least and at most. Pure: the time is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.experiment.history import History
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Stop
from tuner.wording import duration

_WEIGHT = 4  # trials that the rungs' expectation counts as, beside the trials that are over
_SPREADS = 2  # standard deviations to each side that an estimate shows
_RECENT = 50  # trials whose paces are compared: there may be 100,000
_UNKNOWN = 0.3  # of the mean: how much trials' paces are taken to differ while few are known
_FAR = 0.1  # of the longer time: a shorter one says nothing
_CLOSE = 0.2  # of the longer time: estimates that lie closer are told as one


class Span(NamedTuple):
    """The least and the most that something comes to: epochs, or seconds."""

    least: float
    most: float

    def __str__(self) -> str:
        """Of seconds, in words."""
        if self.most - self.least <= max(1, _CLOSE * self.most):
            return f"~{duration(self.most)} left"
        if self.least < _FAR * self.most:
            return f"at most {duration(self.most)} left"
        return f"{duration(self.least)} to {duration(self.most)} left"


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """What is known of a search before it runs.

    total: trials to run, None if unknown. max_t: upper bound of a trial in epochs. depth: epochs
    that a trial is expected to last, None to go by those seen. rungs: epochs after which a trial
    may be stopped. budget_s: seconds after which the search ends. open_end: whether it may end at
    any time.
    """

    total: int | None
    max_t: int | None
    depth: float | None = None
    rungs: tuple[float, ...] = ()
    budget_s: float | None = None
    open_end: bool = False

    @classmethod
    def of(cls, spec: ExperimentSpec, history: History) -> TimeLeft:
        """What the spec says of it, and what was asked of it up to now."""
        scheduler, depth = spec.scheduler, None
        if scheduler and spec.epochs == scheduler.max_t:
            depth = scheduler.expected_epochs(spec.brackets)
        rungs = scheduler.rungs() if scheduler else ()
        open_end = spec.stop != Stop()
        total, budget_s = history.total(spec.trials), spec.time_budget_s
        return cls(total, spec.epochs, depth, rungs, budget_s, open_end)

    def seconds(self, history: History, now: float) -> Span | None:
        """The seconds left, at least and at most; None if there is nothing to estimate from.

        A running trial may be stopped at its next rung or go on to max_t. Trials to come are taken
        to last as many epochs as those that are over and the rungs say (max_t, if neither does),
        give or take what these differ. The pace is that of the epochs since the driver's last
        start, but no trial's rest goes faster than one trial does.
        """
        if history.status != RUNNING or history.steered.paused:
            return None
        span = self._by_pace(history, now)
        if self.open_end:
            span = span and Span(0.0, span.most)
        if self.budget_s is None or not history.runs:
            return span
        rest = max(0.0, self.budget_s - (latest(history, now) - history.runs[-1].started))
        if span is None:
            return Span(rest if self.total is None else 0.0, rest)
        return Span(min(span.least, rest), min(span.most, rest))

    def _by_pace(self, history: History, now: float) -> Span | None:
        pace, trials = history.pace, list(history.trials.values())
        over = [t.last_epoch for t in trials if t.status in (COMPLETED, STOPPED)]
        depth = self._depth(over)
        if self.total is None or depth is None or pace.first_trial is None or not pace.epochs:
            return None
        paces = _Paces.of(trials[-_RECENT:])
        going = [t for t in trials if t.status in (RUNNING, INTERRUPTED)]
        rests = [self._rest(t.last_epoch, over) for t in going]
        to_come = max(0, self.total - len(trials))
        epochs = self._sum(rests, to_come, depth, over)
        now = latest(history, now)
        alone = [  # how long each of those that run takes, however many slots are free
            paces.seconds(trial, rest, now) for trial, rest in zip(going, rests, strict=True)
        ]
        last = max([0.0, *(span.most for span in alone)])
        if to_come:
            last = max(last, paces.slowest * (self.max_t or depth))
        an_epoch = max(0.0, now - pace.first_trial) / pace.epochs
        least = max([an_epoch * epochs.least * paces.quick, *(span.least for span in alone)])
        slow = paces.slow if to_come else 1.0
        most = an_epoch * epochs.most * slow + last * (1 - 1 / max(1, pace.side_by_side))
        return Span(least, max(least, most))

    def _sum(self, rests: Sequence[Span], to_come: int, depth: float, over: Sequence[int]) -> Span:
        """The epochs of those that run and of so many trials to come, all together."""
        shortest = self.rungs[0] if self.rungs else min([*over, depth])
        longest = self.max_t or max([*over, depth])
        spread = _spread(over) if len(over) >= _WEIGHT else (longest - shortest) / 2
        known = len(over) + _WEIGHT
        variance = spread**2 * to_come * (1 + to_come / known)
        variance += fsum(((rest.most - rest.least) / 2) ** 2 for rest in rests)
        mean = to_come * depth + fsum((rest.least + rest.most) / 2 for rest in rests)
        doubt = _SPREADS * math.sqrt(variance)
        least = to_come * shortest + fsum(rest.least for rest in rests)
        most = to_come * longest + fsum(rest.most for rest in rests)
        return Span(max(least, mean - doubt), min(most, mean + doubt))

    def _depth(self, over: Sequence[int]) -> float | None:
        """The epochs that a trial lasts on average."""
        if self.depth is not None:
            return (self.depth * _WEIGHT + sum(over)) / (_WEIGHT + len(over))
        return sum(over) / len(over) if over else self.max_t

    def _rest(self, epoch: int, over: Sequence[int]) -> Span:
        """The epochs to go of a trial that has reported `epoch`."""
        last = self.max_t or max([*over, epoch + 1])
        stop = next((rung for rung in self.rungs if rung > epoch), last)
        if self.max_t is None:
            stop = max(min(over, default=last), epoch + 1)
        return Span(max(0.0, min(stop, last) - epoch), max(0.0, last - epoch))


class _Paces:
    """How long an epoch takes in different trials: the seconds that each of them needs for one.

    quick, slow: by how much the pace of trials to come may differ from that of those seen.
    """

    def __init__(self, seconds: Sequence[float]) -> None:
        self.slowest = max(seconds, default=0.0)
        mean = fsum(seconds) / len(seconds) if seconds else 0.0
        spread = _spread(seconds) / mean if mean else 0.0
        if len(seconds) < _WEIGHT:
            spread = max(spread, _UNKNOWN)
        doubt = _SPREADS * spread / math.sqrt(len(seconds) or 1)
        self.quick, self.slow = max(0.0, 1 - doubt), 1 + doubt

    @classmethod
    def of(cls, trials: Sequence[TrialRecord]) -> _Paces:
        return cls([t.duration_s / t.last_epoch for t in trials if t.last_epoch])

    def seconds(self, trial: TrialRecord, rest: Span, now: float) -> Span:
        """What the `rest` of its epochs takes a trial, by its own pace, or else the slowest."""
        pace = trial.duration_s / trial.last_epoch if trial.last_epoch else self.slowest
        begun = now - trial.runs[-1].ended if trial.status == RUNNING and trial.runs else 0.0
        return Span(*(max(0.0, epochs * pace - begun) for epochs in rest))


def _spread(values: Sequence[float]) -> float:
    """The standard deviation; that of `statistics` takes a second for 100,000."""
    mean = fsum(values) / len(values)
    return math.sqrt(fsum((value - mean) ** 2 for value in values) / len(values))


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
