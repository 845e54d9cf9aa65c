"""What ends a search before its trials do: a signal, a time budget that is spent, or an error."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from typing import Any, Self

from tuner import process
from tuner.errors import TunerError
from tuner.experiment.events import (
    COMPLETED,
    CONTROL,
    EXPERIMENT_STARTED,
    FAILED,
    FINISH,
    PATIENCE,
    SAME_FAILURE,
    TARGET,
    TIME_BUDGET,
    TRIAL_ENDED,
    Event,
)
from tuner.experiment.history import History
from tuner.experiment.results.rows import value_at
from tuner.experiment.results.trouble import OF_CONFIGS, Cause, cause_of
from tuner.experiment.trials import Best, TrialRecord
from tuner.search.resuming import unfinished
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective, Stop
from tuner.spec.space.domains import Choice, Space
from tuner.spec.space.spaces import walk

_ENOUGH, _SURELY = 3, 10  # trials that fail with one cause


class StopRequest:
    """Whether the search is to end before its trials do, and why: a `signal`, an `error`, or a
    `reason` of `EarlyEnd`.

    As a context it takes over SIGINT, SIGTERM and SIGHUP, but for those that are ignored. The first
    one counts. A second Ctrl-C raises KeyboardInterrupt: its user does not want to wait.
    """

    def __init__(self, time_budget_s: float | None) -> None:
        self.time_budget_s = time_budget_s  # from now on
        self.signal: int | None = None
        self.error: TunerError | None = None
        self.reason: str | None = None
        self._begun = time.monotonic()
        self._handled = ExitStack()

    @property
    def requested(self) -> bool:
        """Whether the search is to end now."""
        return bool(self.why_early) or self.signal is not None or self.error is not None

    @property
    def why_early(self) -> str | None:
        """Why the search is to end now although nothing is wrong: TIME_BUDGET, or `reason`."""
        budget = self.time_budget_s
        late = budget is not None and time.monotonic() - self._begun >= budget
        return self.reason or (TIME_BUDGET if late else None)

    def fail(self, error: TunerError) -> None:
        """End the search because of `error`; callable from any thread."""
        self.error = error

    def __enter__(self) -> Self:
        self._handled.enter_context(process.handled(self._on_signal))
        return self

    def __exit__(self, *exception: object) -> None:
        self._handled.close()

    def _on_signal(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


class EarlyEnd:
    """An observer that says when a search has what it looks for, gets no further, or only fails.

    history: the experiment's, up to the event that is being observed. Patience is counted from the
    driver's last start, and from the end of a pause; in a pause it does not run out.
    """

    def __init__(self, stop: Stop, objective: Objective, history: History, space: Space) -> None:
        self._stop, self._objective, self._history = stop, objective, history
        self._failures = FirstFailures(history, space)
        self._best: Best | None = None
        self._trials = 0  # that have ended since the best one came
        self._since: float | None = None  # when it came, or the driver started

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        best = self._history.best
        if self._since is None or best != self._best:
            self._best, self._trials, self._since = best, 0, event["time"]
        elif event["event"] == TRIAL_ENDED and not (best and best.trial_id == event["trial_id"]):
            self._trials += 1
        if event["event"] == CONTROL and event["control"]["verb"] == "go-on":
            self._since = event["time"]
        self._failures(event)

    def reason(self, now: float) -> str | None:
        """Why the search ends, as in `experiment_ended`; None: it goes on. now: by the events'
        clock.
        """
        if self._failures.are_alike:
            return SAME_FAILURE
        stop, best = self._stop, self._history.best
        if stop.target is not None and best is not None:
            objective = self._objective
            if objective.key(best.value) <= objective.key(stop.target):
                return TARGET
        waited = 0.0 if self._since is None else now - self._since
        tired = stop.patience_trials is not None and self._trials >= stop.patience_trials
        paused = self._history.steered.paused
        late = stop.patience_s is not None and waited >= stop.patience_s and not paused
        return PATIENCE if tired or late else None


class FirstFailures:
    """An observer that says whether all trials of a search would fail, as its first ones do.

    A trial that runs again and fails as before is not counted: so every resume comes further.
    """

    def __init__(self, history: History, space: Space) -> None:
        self._history = history
        self._choices = [
            node.path
            for node, domain in walk(space)
            if isinstance(domain, Choice) and domain.size != 1 and not node.branches
        ]
        self._causes: dict[str, Cause] = {}  # trial_id -> why it failed last
        self._failed: defaultdict[Cause, dict[str, TrialRecord]] = defaultdict(dict)
        self._alike: set[Cause] = set()  # why all trials would fail

    @property
    def are_alike(self) -> bool:
        """Whether there are enough of one cause, and no trial is usable."""
        return bool(self._alike) and self._history.best is None

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        if event["event"] == EXPERIMENT_STARTED:
            for trial in self._history.of_status(FAILED):
                self._count(trial)
        elif event["event"] == TRIAL_ENDED:
            trial = self._history.trials[event["trial_id"]]
            if trial.status == FAILED:
                self._count(trial)
            elif cause := self._causes.get(trial.trial_id):  # it is to run again
                self._failed[cause].pop(trial.trial_id, None)
                self._alike.discard(cause)

    def _count(self, trial: TrialRecord) -> None:
        assert trial.error is not None
        cause = cause_of(trial.error)
        if cause.kind == "node_lost" or self._causes.get(trial.trial_id) == cause:
            return
        self._causes[trial.trial_id] = cause
        failed = self._failed[cause]
        failed[trial.trial_id] = trial
        if would_all_fail(cause.kind, failed.values(), self._choices):
            self._alike.add(cause)


def would_all_fail(kind: str, failed: Collection[TrialRecord], choices: Iterable[str]) -> bool:
    """Whether the first trials of a search, which `failed` with one cause, show that all others
    would fail, too.

    Three do. Ten are needed where it may lie in their configs: NaN and too little memory often
    come of a part of the space, and an error may come of a value that all of these have of one of
    the `choices`, dotted names of hyperparameters. A bad report comes of the code alone.
    """
    if kind == "bad_report" or not _ENOUGH <= len(failed) < _SURELY:
        return len(failed) >= _ENOUGH
    values = ({repr(value_at(trial.config, name)) for trial in failed} for name in choices)
    return kind not in OF_CONFIGS and all(len(different) > 1 for different in values)


def ending(spec: ExperimentSpec, history: History, stop: StopRequest) -> dict[str, Any]:
    """The fields of `experiment_ended` of a search that neither an error nor a signal has ended:
    it has failed where none of its trials is usable, and none is to go on.
    """
    early = why_early(spec, history, stop)
    is_over = early.get("reason") == SAME_FAILURE or not unfinished(history)
    has_failed = history.trials and history.best is None and is_over
    return {"status": FAILED if has_failed else COMPLETED, **early}


def why_early(spec: ExperimentSpec, history: History, stop: StopRequest) -> dict[str, Any]:
    """The fields of `experiment_ended` that say why a search ended before its trials did,
    and how many of them have not started; none where it did not.
    """
    total, trials = history.total(spec.trials), history.trials
    is_whole = total is not None and len(trials) >= total
    reason = stop.why_early or (FINISH if history.steered.finishing else None)
    if reason is None or (is_whole and not unfinished(history)):
        return {}
    rest = {} if total is None else {"never_started": total - len(trials)}
    return {"reason": reason, **rest}
