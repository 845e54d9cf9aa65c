"""What a search has come to, counted from its events. Pure: the time is given."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tuner.record.events import (
    COMPLETED,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    RESULT,
    RUNNING,
    STOPPED,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)
from tuner.spec.experiment import ExperimentSpec


@dataclass(frozen=True, slots=True)
class Best:
    """The best value so far, and which trial had it, at which epoch, with which config."""

    value: float
    trial_id: str
    epoch: int
    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """A trial that failed: of which kind, and what was said."""

    trial_id: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Live:
    """A trial that runs: its last epoch, 0 before the first, and the objective's value there."""

    trial_id: str
    config: dict[str, Any]
    epoch: int
    value: float | None


@dataclass(slots=True)
class _Trial:
    config: dict[str, Any] = field(default_factory=dict)
    status: str = RUNNING
    epoch: int = 0
    value: float | None = None
    best: Best | None = None
    error: tuple[str, str] = ("", "")


_WEIGHT = 4  # trials that what the rungs promise counts as, beside the trials that are over


class Tally:
    """Counts trials and epochs, keeps the best, and guesses the time left.

    total: trials to run, None where nobody knows. max_t: upper bound of a trial in epochs. depth:
    epochs that a trial is expected to last, None to go by those seen. slots: trials that run side
    by side, None to go by those seen. A failed trial is never the best.
    """

    def __init__(
        self,
        *,
        total: int | None,
        max_t: int | None,
        metric: str,
        mode: str,
        depth: float | None = None,
        slots: int | None = None,
    ) -> None:
        self.total = total
        self.metric = metric
        self.best: Best | None = None
        self._max_t = max_t
        self._sign = 1 if mode == "min" else -1
        self._expected = depth
        self._slots = slots
        self._trials: dict[str, _Trial] = {}
        self._counts: Counter[str] = Counter()
        self._began: float | None = None  # since the last start of the driver, as are:
        self._first_trial: float | None = None
        self._epochs = 0
        self._side_by_side = 0
        self._over = False
        self._latest = 0.0  # when the last event was

    @classmethod
    def of(cls, spec: ExperimentSpec, *, slots: int | None = None) -> Tally:
        """The tally of an experiment, nothing taken yet."""
        scheduler, depth = spec.scheduler, None
        if scheduler and spec.epochs == scheduler.max_t:
            depth = scheduler.expected_epochs(spec.brackets)
        return cls(
            total=spec.trials,
            max_t=spec.epochs,
            metric=spec.objective.metric,
            mode=spec.objective.mode,
            depth=depth,
            slots=slots,
        )

    def take(self, event: Event) -> None:
        """Take one event into account."""
        self._latest = max(self._latest, event["time"])
        kind = event["event"]
        if kind == EXPERIMENT_STARTED:
            self._restart(event["time"])
        elif kind == EXPERIMENT_ENDED:
            self._over = True
        elif kind == TRIAL_STARTED:
            trial = self._trial(event)
            trial.config = event["config"]
            self._set(trial, RUNNING)
            self._first_trial = self._first_trial or event["time"]
            self._side_by_side = max(self._side_by_side, self._counts[RUNNING])
        elif kind == RESULT:
            self._result(event)
        elif kind == TRIAL_ENDED:
            trial = self._trial(event)
            self._set(trial, event["status"])
            if trial.status == FAILED:
                trial.error = event["error"]["kind"], event["error"]["message"]
            if trial.status == FAILED and self.best and self.best.trial_id == event["trial_id"]:
                self._choose_again()

    @property
    def counts(self) -> Counter[str]:
        """How many trials there are of every status."""
        return self._counts.copy()

    @property
    def live(self) -> list[Live]:
        """The trials that run, in the order of their starts."""
        # A view may ask from a thread of its own: a list is taken in one step, a loop is not.
        trials = list(self._trials.items())
        running = [(i, t) for i, t in trials if t.status == RUNNING]
        return [Live(i, t.config, t.epoch, t.value) for i, t in running]

    @property
    def failed(self) -> list[Failed]:
        """The trials that failed, in the order of their starts."""
        trials = list(self._trials.items())
        return [Failed(i, *t.error) for i, t in trials if t.status == FAILED]

    @property
    def done(self) -> int:
        """Trials that are over: completed, stopped or failed."""
        return sum(self._counts[status] for status in (COMPLETED, STOPPED, FAILED))

    def elapsed_s(self, now: float) -> float:
        """Seconds since the driver started, the last time that it did; `now` as its clock has it.

        A clock that is behind counts as that of the last event.
        """
        return 0.0 if self._began is None else max(now, self._latest) - self._began

    def left_s(self, now: float) -> float | None:
        """A guess of the seconds left; None where there is nothing to guess from.

        Trials to come are taken to last as many epochs as those that are over and the rungs say
        (max_t, where neither does); a running trial that has outlived that, up to max_t. The pace
        is that of the epochs so far, but no trial's rest goes faster than one trial does.
        """
        depth = self._depth()
        if self.total is None or depth is None or self._first_trial is None:
            return None
        if self._over or not self._epochs:
            return None
        trials = list(self._trials.values())
        live = [t for t in trials if t.status in (RUNNING, INTERRUPTED)]
        rests = [self._rest(trial, depth) for trial in live]
        to_come = max(0, self.total - len(trials))
        seconds_an_epoch = max(0.0, max(now, self._latest) - self._first_trial) / self._epochs
        slots = self._slots or max(1, self._side_by_side)
        longest = max([*rests, depth if to_come else 0.0], default=0.0)
        return seconds_an_epoch * max(sum(rests) + to_come * depth, longest * slots)

    def _restart(self, now: float) -> None:
        self._began, self._first_trial, self._latest = now, None, now
        self._epochs = self._side_by_side = 0
        self._over = False
        for trial in self._trials.values():
            if trial.status == RUNNING:  # the driver that ran it is gone
                self._set(trial, INTERRUPTED)

    def _result(self, event: Event) -> None:
        trial = self._trial(event)
        trial.epoch = event["epoch"]
        self._epochs += 1
        value = trial.value = event["metrics"].get(self.metric)
        if value is not None:
            found = Best(value, event["trial_id"], trial.epoch, trial.config)
            trial.best = self._better(trial.best, found)
            self.best = self._better(self.best, found)

    def _better(self, old: Best | None, new: Best) -> Best:
        return new if old is None or self._sign * new.value < self._sign * old.value else old

    def _choose_again(self) -> None:
        self.best = None
        for trial in self._trials.values():
            if trial.best is not None and trial.status != FAILED:
                self.best = self._better(self.best, trial.best)

    def _depth(self) -> float | None:
        over = [t.epoch for t in list(self._trials.values()) if t.status in (COMPLETED, STOPPED)]
        if self._expected is not None:
            return (self._expected * _WEIGHT + sum(over)) / (_WEIGHT + len(over))
        return sum(over) / len(over) if over else self._max_t

    def _rest(self, trial: _Trial, depth: float) -> float:
        if trial.epoch < depth:
            return depth - trial.epoch
        return 1.0 if self._max_t is None else max(0.0, self._max_t - trial.epoch)

    def _trial(self, event: Event) -> _Trial:
        trial = self._trials.get(event["trial_id"])
        if trial is None:
            trial = self._trials[event["trial_id"]] = _Trial()
            self._counts[trial.status] += 1
        return trial

    def _set(self, trial: _Trial, status: str) -> None:
        self._counts[trial.status] -= 1
        self._counts[status] += 1
        trial.status = status
