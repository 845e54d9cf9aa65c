"""What ends a search before its trials do: a signal, a time budget that is spent, or an error."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import Any, Self

from tuner import signals
from tuner.errors import TunerError
from tuner.record.events import CONTROL, FINISH, PATIENCE, TARGET, TIME_BUDGET, TRIAL_ENDED, Event
from tuner.record.history import History
from tuner.record.trials import Best
from tuner.search.resuming import unfinished
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective, Stop


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
        self._handled.enter_context(signals.handled(self._on_signal))
        return self

    def __exit__(self, *exception: object) -> None:
        self._handled.close()

    def _on_signal(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


class EarlyEnd:
    """An observer that says when a search has what it looks for, or gets no further.

    history: the experiment's, up to the event that is being observed. Patience is counted from the
    driver's last start, and from the end of a pause; in a pause it does not run out.
    """

    def __init__(self, stop: Stop, objective: Objective, history: History) -> None:
        self._stop, self._objective, self._history = stop, objective, history
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

    def reason(self, now: float) -> str | None:
        """Why the search ends, TARGET or PATIENCE; None: it goes on. now: by the events' clock."""
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


def why_early(spec: ExperimentSpec, history: History, stop: StopRequest) -> dict[str, Any]:
    """The fields of `experiment_ended` that say why a completed search ended before its trials did,
    and how many of them have not started; none where it did not.
    """
    total, trials = history.total(spec.trials), history.trials
    is_whole = total is not None and len(trials) >= total
    reason = stop.why_early or (FINISH if history.steered.finishing else None)
    if reason is None or (is_whole and not unfinished(history)):
        return {}
    rest = {} if total is None else {"never_started": total - len(trials)}
    return {"reason": reason, **rest}
