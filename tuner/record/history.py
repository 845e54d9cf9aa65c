"""The state of an experiment, folded from its journal's events. Pure: no files, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import fsum
from sys import intern
from typing import Any, NamedTuple

from tuner.record.events import (
    CHECKPOINT,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    FAILED,
    INTERRUPTED,
    RESULT,
    RUNNING,
    TRIAL_ENDED,
    TRIAL_STARTED,
    Event,
)


class Report(NamedTuple):
    """One report of a trial: the epoch that it closes, when it came, and its metrics."""

    epoch: int
    time: float
    metrics: dict[str, float]


class CheckpointRecord(NamedTuple):
    """A checkpoint as journaled; `path` is POSIX, relative to the experiment, and unchecked."""

    epoch: int
    path: str
    sha256: str


class Run(NamedTuple):
    """A time, in seconds since the epoch, in which a trial or a driver ran without a gap."""

    started: float
    ended: float

    @property
    def duration_s(self) -> float:
        """How long it ran, in seconds; at least 0, however clocks were set."""
        return max(0.0, self.ended - self.started)


class TrialError(NamedTuple):
    """Why a trial failed: one of `tuner.errors.FAILURE_KINDS`, and what was said."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial. Times are in seconds since the epoch; `ended` is None while it is not over.

    `runs` are the times in which it ran, oldest first: one, and another for each resume.
    `origin` says where its config came from, where the journal has it; `seed` is the trial's own,
    None where it is the experiment's.
    """

    trial_id: str
    config: dict[str, Any]
    status: str
    results: tuple[Report, ...]
    checkpoints: tuple[CheckpointRecord, ...]
    error: TrialError | None
    started: float
    ended: float | None
    runs: tuple[Run, ...]
    origin: str | None = None
    seed: int | None = None

    def trained_with(self, seed: int | None) -> int | None:
        """The seed it trained with: its config's, its own, else the experiment's `seed`."""
        own = seed if self.seed is None else self.seed
        found: int | None = self.config.get("seed", own)
        return found

    @property
    def duration_s(self) -> float:
        """Seconds that it ran, without the gaps between kill and resume."""
        return fsum(run.duration_s for run in self.runs)

    @property
    def last_epoch(self) -> int:
        """The last reported epoch; 0 before the first report."""
        return self.results[-1].epoch if self.results else 0

    def values(self, metric: str) -> list[tuple[int, float]]:
        """(epoch, value) of every report that has `metric`, oldest first."""
        return [(r.epoch, r.metrics[metric]) for r in self.results if metric in r.metrics]

    def report_at(self, epoch: int) -> Report | None:
        """The report of `epoch`, if there is one."""
        return next((report for report in self.results if report.epoch == epoch), None)


@dataclass(frozen=True, slots=True)
class History:
    """An experiment: its status, its trials in order of their ids, and its times.

    A trial whose end is not journaled is "running" while the driver that ran it may live, and
    "interrupted" once a later `experiment_started` shows that it does not. `runs` are the times in
    which a driver ran, up to its last event: one, and another for each resume.
    """

    status: str
    trials: dict[str, TrialRecord]
    started: float | None
    ended: float | None
    resumed: int
    runs: tuple[Run, ...] = ()

    @property
    def duration_s(self) -> float | None:
        """Seconds from the first start to the end, gaps included; None while it is not over."""
        if self.started is None or self.ended is None:
            return None
        return max(0.0, self.ended - self.started)


def fold(events: Iterable[Event]) -> History:
    """Fold events, oldest first, into the state they lead to. Unknown events change nothing."""
    state = _State()
    for event in events:
        take = _TAKERS.get(event["event"])
        if take is not None:
            take(state, event)
            state.runs.seen = event["time"]
    state.runs.close()
    return History(
        status=state.status,
        trials={
            trial_id: state.trials[trial_id].record() for trial_id in sorted(state.trials, key=int)
        },
        started=state.started,
        ended=state.ended,
        resumed=state.resumed,
        runs=tuple(state.runs.ended),
    )


@dataclass(slots=True)
class _Runs:
    """The times in which something ran, as its events show them."""

    ended: list[Run] = field(default_factory=list)
    started: float | None = None  # of the current one
    seen: float = 0.0  # the time of its last event

    def close(self) -> None:
        if self.started is not None:
            self.ended.append(Run(self.started, self.seen))
            self.started = None

    def open(self, at: float) -> None:
        self.close()
        self.started = self.seen = at


@dataclass(slots=True)
class _Trial:
    trial_id: str
    started: float
    config: dict[str, Any] = field(default_factory=dict)
    origin: str | None = None
    seed: int | None = None
    status: str = RUNNING
    results: list[Report] = field(default_factory=list)
    checkpoints: list[CheckpointRecord] = field(default_factory=list)
    error: TrialError | None = None
    ended: float | None = None
    runs: _Runs = field(default_factory=_Runs)

    def record(self) -> TrialRecord:
        self.runs.close()
        return TrialRecord(
            trial_id=self.trial_id,
            config=self.config,
            status=self.status,
            results=tuple(self.results),
            checkpoints=tuple(self.checkpoints),
            error=self.error,
            started=self.started,
            ended=self.ended,
            runs=tuple(self.runs.ended),
            origin=self.origin,
            seed=self.seed,
        )


@dataclass(slots=True)
class _State:
    status: str = RUNNING
    trials: dict[str, _Trial] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    resumed: int = 0
    runs: _Runs = field(default_factory=_Runs)

    def trial(self, event: Event) -> _Trial:
        trial_id = event["trial_id"]
        trial = self.trials.get(trial_id)
        if trial is None:
            trial = self.trials[trial_id] = _Trial(trial_id, event["time"])
        trial.runs.seen = event["time"]
        return trial


def _experiment_started(state: _State, event: Event) -> None:
    state.runs.open(event["time"])
    if state.started is None:
        state.started = event["time"]
    state.resumed += event["resumed"]
    state.status, state.ended = RUNNING, None
    for trial in state.trials.values():
        if trial.status == RUNNING:  # the driver that ran it is gone
            trial.runs.close()
            trial.status = INTERRUPTED


def _trial_started(state: _State, event: Event) -> None:
    known = event["trial_id"] in state.trials
    if known:
        state.trials[event["trial_id"]].runs.close()
    trial = state.trial(event)
    trial.runs.open(event["time"])
    trial.status, trial.error, trial.ended = RUNNING, None, None
    if not known:
        trial.config = event["config"]
        origin = event.get("origin")
        trial.origin = origin if isinstance(origin, str) else None
        trial.seed = event.get("seed")


def _result(state: _State, event: Event) -> None:
    # The names repeat in every report: keep one copy of each.
    metrics = {intern(name): value for name, value in event["metrics"].items()}
    state.trial(event).results.append(Report(event["epoch"], event["time"], metrics))


def _checkpoint(state: _State, event: Event) -> None:
    record = CheckpointRecord(event["epoch"], event["path"], event["sha256"])
    state.trial(event).checkpoints.append(record)


def _trial_ended(state: _State, event: Event) -> None:
    trial = state.trial(event)
    trial.runs.close()
    trial.status, trial.ended = event["status"], event["time"]
    trial.error = None
    if trial.status == FAILED:
        trial.error = TrialError(event["error"]["kind"], event["error"]["message"])


def _experiment_ended(state: _State, event: Event) -> None:
    state.status, state.ended = event["status"], event["time"]


_TAKERS: dict[str, Callable[[_State, Event], None]] = {
    EXPERIMENT_STARTED: _experiment_started,
    TRIAL_STARTED: _trial_started,
    RESULT: _result,
    CHECKPOINT: _checkpoint,
    TRIAL_ENDED: _trial_ended,
    EXPERIMENT_ENDED: _experiment_ended,
}
