"""The scheduler that Ray Tune gets, and the rules that stop trials."""

# N trials, K milestones

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from tuner import ray_compat
from tuner.spec.sections import Objective
from tuner.trial.trainable import REPORT, RUNS_ON

_CLEANUP_TIMEOUT_S = 5


def _should_end(trial_id: str) -> bool:
    return False


class InOrder(FIFOScheduler):
    """Stops no trial by itself; trials start in order.

    leaves: whether a user's request ends a trial. controller: Tune's, or None. stopped: trial ids.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.leaves: Callable[[str], bool] = _should_end
        self.controller: Any = None
        self.stopped: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        # Ray pickles it into snapshots that nobody reads; these two do not pickle
        return {**self.__dict__, "leaves": _should_end, "controller": None}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Shorten Ray's wait of 10 s for workers at the end: reports are safe by then."""
        ray_compat.limit_cleanup(tune_controller, _CLEANUP_TIMEOUT_S)
        self.controller = tune_controller

    def on_trial_result(
        self, tune_controller: Any, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Whether the trial goes on, in Tune's words; a complete trial always does."""
        trial_id = str(trial.config["trial_id"])
        goes_on = self.record(trial_id, int(result["training_iteration"]), result)
        if f"{REPORT}/{RUNS_ON}" in result:
            self.stopped.discard(trial_id)
            goes_on = True
        goes_on = goes_on and not self.leaves(trial_id)
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)

    def record(self, trial_id: str, epoch: int, metrics: Mapping[str, float]) -> bool:
        """Take in a report, live or from a journal; returns whether the trial goes on."""
        return True

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """None: Tune itself takes the next trial.

        Ray's FIFO would give a free worker to a trial whose own worker is just starting.
        """
        return None


class StoppingRule(Protocol):
    """Decides from reports which trials go on."""

    def goes_on(self, trial_id: str, epoch: int, loss: Any) -> bool:
        """Take in a finite loss; returns whether the trial goes on.

        Deterministic, since a resume replays the journal. A rule with `weighs_goals = True` gets
        the losses of all goals in place of the first one's. Reports beyond the limits have the
        worst loss within them, except for a rule with `ignores_limits = True`.
        """


class Patience:
    """Stops a trial whose value has not improved for so many epochs.

    A trial that improves beyond the limits may come within them later.
    """

    ignores_limits = True

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        # trial_id -> least loss, and its epoch
        self._best: dict[str, tuple[float, int]] = {}

    def goes_on(self, trial_id: str, epoch: int, loss: float) -> bool:
        least, since = self._best.get(trial_id, (math.inf, epoch))
        if loss < least:
            self._best[trial_id] = (loss, epoch)
            return True
        return epoch - since < self._epochs


class StoppingScheduler(InOrder):
    """Stops trials by rules."""

    def __init__(self, objective: Objective, rule: StoppingRule) -> None:
        super().__init__()
        self._objective = objective
        self._worst: tuple[float, ...] = ()  # losses of reports that keep the limits
        self._came_to: dict[str, int] = {}  # trial_id -> its last epoch
        # Each takes in every report; any may stop
        self.rules: list[StoppingRule] = [rule]

    def record(self, trial_id: str, epoch: int, metrics: Mapping[str, float]) -> bool:
        if epoch <= self._came_to.get(trial_id, 0):
            return True  # run again since its last checkpoint: decided already
        self._came_to[trial_id] = epoch
        reported = self._objective.compute_losses(metrics)
        is_within = self._objective.is_within_limits(metrics)
        if is_within:
            self._worst = tuple(map(max, reported, self._worst or reported))
        goes_on = True
        for rule in self.rules:
            is_plain = is_within or getattr(rule, "ignores_limits", False)
            losses = reported if is_plain else self._worst
            if losses:  # there are none while no report keeps the limits
                loss = losses if getattr(rule, "weighs_goals", False) else losses[0]
                goes_on &= rule.goes_on(trial_id, epoch, loss)
        # A trial reports after it was stopped if other settings let it go on before a resume
        (self.stopped.discard if goes_on else self.stopped.add)(trial_id)
        return goes_on
