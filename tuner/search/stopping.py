"""What ends a search before its trials do: a signal, a spent time budget, an error, or a rule."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

from tuner.errors import TunerError
from tuner.experiment import events
from tuner.experiment.history import History
from tuner.experiment.trials import (
    OF_CONFIGS,
    Best,
    TrialError,
    TrialRecord,
    estimate_gain,
    normalize_error,
)
from tuner.search.replay import list_unfinished
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import find_value
from tuner.spec.sections import Objective, Stop
from tuner.spec.space.domains import Choice, Space
from tuner.spec.space.spaces import walk

_ENOUGH = 3
_SURELY = 10  # trials that fail with one cause
# At least, until a refit trains, and after it, to measure the test split
_REFIT_START_S = 10.0
# Times a trial's time: the validation images train, too, or all images; and a margin
_MORE_IMAGES = 1.5


class StopRequest:
    """Whether the search ends now: by a `signal`, `error` or `reason`; a second Ctrl-C raises."""

    def __init__(
        self,
        time_budget_s: float | None,
        *,
        reserved_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.time_budget_s = time_budget_s  # from now on
        self._reserved_s = reserved_s  # of the budget, for what comes after the search
        self.signal: int | None = None
        self.error: TunerError | None = None
        self.reason: str | None = None
        self._begun = time.monotonic()

    @property
    def requested(self) -> bool:
        return bool(self.why_early) or self.signal is not None or self.error is not None

    @property
    def why_early(self) -> str | None:
        """TIME_BUDGET, or `reason`, if the search is to end although nothing is wrong."""
        budget = self.time_budget_s
        spent_s = time.monotonic() - self._begun
        late = budget is not None and spent_s >= budget - self._reserved_s()
        return self.reason or (events.TIME_BUDGET if late else None)

    def fail(self, error: TunerError) -> None:
        """End the search because of `error`; callable from any thread."""
        self.error = error

    def receive_signal(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


def estimate_refit_s(spec: ExperimentSpec, history: History) -> float:
    """The seconds that a refit of the best trial so far takes at most; 0 where the spec wants none.

    It trains as many epochs as the best one's number, on more images than the trial had. On a busy
    machine it starts as slowly as the search has.
    """
    if not spec.refit or history.best is None:
        return 0.0
    trial = history.trials[history.best.trial_id]
    share = history.best.epoch / max(1, trial.last_epoch)
    start_s = _REFIT_START_S
    if history.pace.first_trial is not None:
        start_s = max(start_s, history.pace.first_trial - history.runs[-1].started)
    return start_s + _MORE_IMAGES * share * trial.duration_s


class EarlyEnd:
    """An observer of targets, patience, expected gains, and trials that fail alike.

    Patience counts from the driver's start and from the end of a pause. A trial that fails again
    counts once for each cause.
    """

    def __init__(
        self, stop: Stop, objective: Objective, history: History, space: Space
    ) -> None:
        self._stop = stop
        self._objective = objective
        self._history = history
        self._best: Best | None = None
        self._trials = 0  # that have ended since the best value came
        self._since: float | None = None  # when it came, or the driver started
        self._choices = [
            node.path
            for node, domain in walk(space)
            if isinstance(domain, Choice) and domain.size != 1 and not node.branches
        ]
        self._failures: dict[str, TrialError] = {}  # trial_id -> of its latest failure
        # Trials that run again, until they fail otherwise
        self._retried: set[str] = set()
        self._fails_alike = False
        self._gain: float | None = None  # expected of another hour
        self._gain_due = 0.0  # ended trials, from which it is estimated again

    def __call__(self, event: events.Event) -> None:
        """Take one event into account."""
        best = self._history.best
        kind = event["event"]
        is_best = best is not None and best.trial_id == event.get("trial_id")
        if self._since is None or self._has_improved(best):
            self._best = best
            self._trials = 0
            self._since = event["time"]
        elif (
            kind == events.TRIAL_ENDED
            and event["status"] in events.ENDED
            and not is_best
        ):
            self._trials += 1
        if kind == events.CONTROL and event["control"]["verb"] == "go-on":
            self._since = event["time"]
        elif kind == events.EXPERIMENT_STARTED:
            for trial in self._history.list_by_status(events.FAILED):
                self._update_failures(trial)
        elif kind == events.TRIAL_ENDED:
            self._update_failures(self._history.trials[event["trial_id"]])
        if kind in (events.EXPERIMENT_STARTED, events.TRIAL_ENDED):
            causes = set(self._failures.values())
            self._fails_alike = not self._has_success() and any(
                map(self._would_all_fail, causes)
            )
        elif kind == events.RESULT:
            self._fails_alike = False
        if self._stop.utility and kind in (
            events.EXPERIMENT_STARTED,
            events.TRIAL_ENDED,
        ):
            ended = self._history.ended_trials
            if ended >= self._gain_due:
                # It reads all trials: not after each of thousands
                self._gain = estimate_gain(
                    self._history.trials.values(), self._objective
                )
                self._gain_due = ended * 1.01

    def _has_improved(self, best: Best | None) -> bool:
        """Whether another epoch is now the best one, and worth more than the one before was."""
        if best is None or self._best is None:
            return best != self._best
        is_worth_more = self._objective.is_better(best.estimate, self._best.estimate)
        return best != self._best and is_worth_more

    def find_reason(self, now: float) -> str | None:
        """Why the search ends, as in `experiment_ended`, or None. now: by the events' clock."""
        stop = self._stop
        best = self._history.best
        if self._fails_alike:
            return events.SAME_FAILURE
        if stop.target is not None and best is not None:
            objective = self._objective
            if objective.compute_loss(best.value) <= objective.compute_loss(
                stop.target
            ):
                return events.TARGET
        if self._gain is not None and self._gain < (stop.utility or 0.0):
            return events.UTILITY
        waited = 0.0 if self._since is None else now - self._since
        tired = (
            stop.patience_trials is not None and self._trials >= stop.patience_trials
        )
        paused = self._history.steered.paused
        late = stop.patience_s is not None and waited >= stop.patience_s and not paused
        return events.PATIENCE if tired or late else None

    def _update_failures(self, trial: TrialRecord) -> None:
        if trial.error is not None:
            cause = normalize_error(trial.error)
            if self._failures.get(trial.trial_id) != cause:
                self._failures[trial.trial_id] = cause
                self._retried.discard(trial.trial_id)
        elif trial.trial_id in self._failures:
            self._retried.add(trial.trial_id)

    def _has_success(self) -> bool:
        """Whether a trial has reported and not failed, even if no report of it counts."""
        if self._history.best is not None:
            return True
        trials = self._history.trials.values()
        return any(trial.results and trial.status != events.FAILED for trial in trials)

    def _would_all_fail(self, cause: TrialError) -> bool:
        """Whether these failures show that all trials would fail.

        Three do, or ten if configs may be the cause: NaN, memory, or one value of a choice. Lost
        nodes and clients that fall silent do not count. Slower trials that began before the third
        failure are waited for.
        """
        ids = [i for i, other in self._failures.items() if other == cause]
        failed = [self._history.trials[i] for i in ids if i not in self._retried]
        is_silent = cause.kind == "timeout" and any(trial.client for trial in failed)
        if cause.kind == "node_lost" or is_silent or len(failed) < _ENOUGH:
            return False
        third = sorted(trial.ended or 0.0 for trial in failed)[_ENOUGH - 1]
        if any(
            self._is_undecided(trial, third) for trial in self._history.trials.values()
        ):
            return False
        if cause.kind == "bad_report" or len(failed) >= _SURELY:
            return True
        values = (
            {repr(find_value(t.config, name)) for t in failed} for name in self._choices
        )
        return cause.kind not in OF_CONFIGS and all(
            len(different) > 1 for different in values
        )

    def _is_undecided(self, trial: TrialRecord, before: float) -> bool:
        """Whether a trial that began `before` this time may still succeed."""
        if trial.trial_id in self._failures:  # it is tried again
            return trial.status == events.RUNNING and trial.runs[-1].started < before
        is_open = trial.status in (events.RUNNING, events.INTERRUPTED)
        return is_open and trial.started < before


def describe_end(
    suggested: int | None, history: History, stop: StopRequest
) -> dict[str, Any]:
    """The fields of `experiment_ended` without error or signal.

    suggested: how many trials the searcher gives, or None.
    """
    total = history.count_trials(suggested)
    trials = history.trials
    left = list_unfinished(history)
    reason = stop.why_early or (events.FINISH if history.steered.finishing else None)
    if not left and total is not None and len(trials) >= total:
        reason = None
    has_failed = (
        trials and history.best is None and (reason == events.SAME_FAILURE or not left)
    )
    fields: dict[str, Any] = {
        "status": events.FAILED if has_failed else events.COMPLETED
    }
    if reason is not None:
        fields["reason"] = reason
        if total is not None:
            fields["never_started"] = total - len(trials)
    return fields
