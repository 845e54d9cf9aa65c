"""A trial as the journal records it: its runs, reports and checkpoints, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import fsum, inf, isqrt, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

from tuner.deprecation import rename_attributes
from tuner.experiment.estimate import Curve
from tuner.experiment.events import ENDED, FAILED, RUNNING
from tuner.spec.sections import Objective

OF_CONFIGS = ("nan", "oom")  # kinds of failure that part of a sound space may lead to

_LEAST = 20  # ended trials, before which no gain is estimated

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_AMOUNT = re.compile(r"allocate (\d[\d.]* ?\w+)")


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

    def as_dict(self) -> dict[str, Any]:
        """The fields of its event."""
        return self._asdict()


@dataclass(slots=True)
class Run:
    """A time, in seconds since the epoch, in which a trial or a driver ran without a gap."""

    started: float
    ended: float

    @property
    def duration_s(self) -> float:
        """How long it ran, in seconds; at least 0, even if a clock was set back."""
        return max(0.0, self.ended - self.started)


class TrialError(NamedTuple):
    """Why a trial failed: one of `tuner.errors.FAILURE_KINDS`, and the message.

    A cause, which trials can have in common, has a message without its numbers.
    """

    kind: str
    message: str


@dataclass(slots=True)  # not frozen: one is made for each report
class Best:
    """The best epoch so far of a trial, or of all: its value of the objective, and whose it is.

    estimate: what it is worth (see `tuner.experiment.estimate`), by which trials are compared. It
    still changes when later epochs are known, so it makes no two of them differ.
    """

    value: float
    trial_id: str
    epoch: int
    estimate: float = field(compare=False)


@dataclass(slots=True)
class TrialRecord:
    """One trial. Times are in seconds since the epoch; `ended` is None while it runs.

    runs: its start and resumes. origin: of its config. seed: None for the experiment's.
    ended_by: a control's id. done: it came to its natural end. client: its latest name.
    client_left: a control or a failure has ended the trial since that client began it. curve: of
    the reports that count, by which `best` is chosen.
    """

    trial_id: str
    started: float
    config: dict[str, Any] = field(default_factory=dict)
    status: str = RUNNING
    results: list[Report] = field(default_factory=list)
    checkpoints: list[CheckpointRecord] = field(default_factory=list)
    error: TrialError | None = None
    ended: float | None = None
    runs: list[Run] = field(default_factory=list)
    origin: str | None = None
    seed: int | None = None
    best: Best | None = None
    curve: Curve | None = field(default=None, compare=False, repr=False)
    ended_by: str | None = None
    done: bool = False
    client: str | None = None
    client_left: bool = False

    if not TYPE_CHECKING:
        __getattr__ = rename_attributes(
            report_at="find_report",
            trained_with="find_seed",
            values="list_values",
            values_within="list_counted_values",
        )

    def copy(self) -> TrialRecord:
        """A record that further events may change; it shares the reports."""
        return replace(
            self,
            results=[*self.results],
            checkpoints=[*self.checkpoints],
            runs=deepcopy(self.runs),
            curve=deepcopy(self.curve),
        )

    def find_seed(self, seed: int | None) -> int | None:
        """The seed it trained with: its config's, its own, or else the experiment's `seed`."""
        trained: int | None = self.config.get(
            "seed", seed if self.seed is None else self.seed
        )
        return trained

    @property
    def duration_s(self) -> float:
        """Seconds that it ran, without the gaps between a kill and its resume."""
        return fsum(run.duration_s for run in self.runs)

    @property
    def last_epoch(self) -> int:
        """The last reported epoch; 0 before the first report."""
        return self.results[-1].epoch if self.results else 0

    def list_values(self, metric: str) -> list[tuple[int, float]]:
        """(epoch, value) of every report that has `metric`, oldest first."""
        return [
            (r.epoch, r.metrics[metric]) for r in self.results if metric in r.metrics
        ]

    def list_counted_values(self, objective: Objective) -> list[tuple[int, float]]:
        """(epoch, value) of every report that can be the trial's best one, oldest first."""
        return [
            (report.epoch, report.metrics[objective.metric])
            for report in self.results
            if objective.metric in report.metrics
            and objective.can_be_best(report.epoch, report.metrics)
        ]

    def is_beyond(self, objective: Objective) -> bool:
        """Whether it has reported the objective, and no report keeps the limits.

        Reports before `from_epoch` say so only as long as there are no others.
        """
        if not objective.limits:
            return False
        reports = [
            report for report in self.results if objective.metric in report.metrics
        ]
        later = [
            report for report in reports if report.epoch >= (objective.from_epoch or 0)
        ]
        deciding = later or reports
        return bool(reports) and not any(
            objective.is_within_limits(each.metrics) for each in deciding
        )

    def is_early(self, objective: Objective) -> bool:
        """Whether its reports of the objective are all of epochs before `from_epoch`."""
        epochs = [epoch for epoch, _ in self.list_values(objective.metric)]
        return bool(epochs) and max(epochs) < (objective.from_epoch or 0)

    def find_report(self, epoch: int) -> Report | None:
        """The report of `epoch`, if there is one."""
        return next((report for report in self.results if report.epoch == epoch), None)

    def break_tie(self, objective: Objective) -> tuple[float, ...]:
        """The order of trials that are worth the same: the other goals at the best epoch, the id.

        So the best trial is one that no other is as good as in every goal.
        """
        if not objective.others:
            return (int(self.trial_id),)
        report = self.find_report(self.best.epoch) if self.best else None
        metrics = report.metrics if report else {}
        losses = [
            goal.compute_loss(metrics[goal.metric]) if goal.metric in metrics else inf
            for goal in objective.others
        ]
        return (*losses, int(self.trial_id))


def normalize_error(error: TrialError) -> TrialError:
    """The failure without its numbers; of `oom` the amount alone.

    >>> normalize_error(TrialError("exception", "ValueError: <Net object at 0x7f12>, at net.py:12"))
    TrialError(kind='exception', message='ValueError: <Net object at #>, at net.py:#')
    """
    if error.kind == "oom" and (amount := _AMOUNT.search(error.message)):
        return TrialError(error.kind, amount[1])
    return TrialError(error.kind, _NUMBER.sub("#", error.message))


def group_failures(
    trials: Iterable[TrialRecord],
) -> dict[TrialError, list[TrialRecord]]:
    """The failed trials by the cause, the most frequent one first; of `OF_CONFIGS` by the kind."""
    causes: dict[TrialError, list[TrialRecord]] = {}
    for trial in trials:
        if trial.error is not None:
            kind = trial.error.kind
            cause = (
                TrialError(kind, "")
                if kind in OF_CONFIGS
                else normalize_error(trial.error)
            )
            causes.setdefault(cause, []).append(trial)
    return dict(sorted(causes.items(), key=lambda pair: -len(pair[1])))


def estimate_gain(trials: Iterable[TrialRecord], objective: Objective) -> float | None:
    """The improvement of the best value that another hour of searching is expected to bring.

    None before 20 trials have ended. As of records of independent draws with an exponential tail
    (Weissman, "Estimation of Parameters and Large Quantiles Based on the k Largest Observations",
    1978), which overrates a search near its limit; as many trials end in an hour as so far.
    """
    ended = [trial for trial in trials if trial.status in ENDED]
    searched_s = 0.0
    until = 0.0  # while any of them ran
    for run in sorted(
        (run for trial in ended for run in trial.runs), key=lambda r: r.started
    ):
        searched_s += max(run.ended - max(run.started, until), 0.0)
        until = max(until, run.ended)
    bests = {
        t.best.estimate for t in ended if t.best is not None and t.status != FAILED
    }
    # A tie does not describe the tail
    losses = sorted(map(objective.compute_loss, bests))
    *leaders, next_best = losses[: isqrt(len(ended)) + 1] or [inf]
    if len(ended) < _LEAST or not searched_s or next_best == inf:
        return None
    excess = fsum(next_best - loss for loss in leaders) / max(len(leaders), 1)
    return excess * log1p(3600 / searched_s)
