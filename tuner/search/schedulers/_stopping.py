"""What schedulers are made of: trials in their order, and the rules that stop them."""

# N trials, K milestones

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from tuner import ray_compat
from tuner.search.curves import Array, CurveModel, milestones
from tuner.spec.sections import Objective
from tuner.trial.trainable import REPORT, RUNS_ON

_CLEANUP_TIMEOUT_S = 5


def _stays(trial_id: str) -> bool:
    return False


class InOrder(FIFOScheduler):
    """Stops no trial by itself, and lets Tune start them in order as workers come free.

    leaves: whether a trial that has reported is to end now, by a user's request. controller:
    Tune's, once there is a trial. stopped: the ids of the trials that it stopped.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.leaves: Callable[[str], bool] = _stays
        self.controller: Any = None
        self.stopped: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        # Ray pickles it into snapshots that nobody reads, and what the driver holds does not pickle
        return {**self.__dict__, "leaves": _stays, "controller": None}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Shorten how long Ray waits for workers when the search ends.

        Ray gives them 5 s to end by themselves and then, one after the other, until 10 s have
        passed; a Ctrl-C within a long epoch meets all of them. What a worker has reported is safe
        by then, and the rest is run again on resume.
        """
        ray_compat.limit_cleanup(tune_controller, _CLEANUP_TIMEOUT_S)
        self.controller = tune_controller

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Whether the trial goes on, in Tune's words; a whole trial is compared with none."""
        trial_id = str(trial.config["trial_id"])
        is_whole = f"{REPORT}/{RUNS_ON}" in result
        goes_on = is_whole or self.record(trial_id, int(result["training_iteration"]), result)
        goes_on = goes_on and not self.leaves(trial_id)
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)

    def record(self, trial_id: str, epoch: int, metrics: Mapping[str, float]) -> bool:
        """Take in a report, live or from a journal; returns whether the trial goes on."""
        return True

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        """By epoch the numbers that a rule predicted for a trial; empty if no rule predicts."""
        return {}

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """None, so that Tune itself takes the next trial.

        Ray's own answer is the oldest pending trial, even one whose worker is just starting. Tune
        would give it the next free worker and end the one that was started for it, whose place a
        new process must fill. With short trials that goes on for the whole search.
        """
        return None


class StoppingRule(Protocol):
    """Decides from reports which trials go on."""

    def goes_on(self, trial_id: str, epoch: int, loss: float) -> bool:
        """Take in a finite loss (lower is better); whether the trial goes on.

        The same reports in the same order must give the same answers: that is how a resumed
        search rebuilds the rule from its journal. What a rule with `forecasts(trial_id)` returns,
        by epoch what it expected of the trial, is journaled with the trial's end.
        """


class Patience:
    """Stops a trial that has had no better value of its own for so many epochs."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._best: dict[str, tuple[float, int]] = {}  # of each trial: its least loss, and when

    def goes_on(self, trial_id: str, epoch: int, loss: float) -> bool:
        least, since = self._best.get(trial_id, (math.inf, epoch))
        if loss < least:
            self._best[trial_id] = (loss, epoch)
            return True
        return epoch - since < self._epochs


class StoppingScheduler(InOrder):
    """Stops trials by rules on our trial_id and epoch, whatever ids Ray gives them."""

    def __init__(self, objective: Objective, rule: StoppingRule) -> None:
        super().__init__()
        self._objective, self._sign = objective, objective.sign
        self._rules: list[StoppingRule] = [rule]  # each takes in every report; any may stop

    def be_patient(self, epochs: int) -> None:
        """Stop trials without a better value for so many epochs, too."""
        self._rules.append(Patience(epochs))

    def record(self, trial_id: str, epoch: int, metrics: Mapping[str, float]) -> bool:
        """See `InOrder.record`."""
        loss = self._sign * metrics[self._objective.metric]
        answers = [rule.goes_on(trial_id, epoch, loss) for rule in self._rules]
        goes_on = all(answers)
        # A trial that reports after it was stopped did so under other settings, before a resume
        (self.stopped.discard if goes_on else self.stopped.add)(trial_id)
        return goes_on

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        """See `InOrder.forecasts`."""
        predicting = (rule for rule in self._rules if hasattr(rule, "forecasts"))
        return next((rule.forecasts(trial_id) for rule in predicting), {})


_MOST = 150  # of the latest trials, and of those that came furthest, that a prediction is made from


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of a trial, in values of the objective.

    end: where it ends; low, high: one standard deviation to either side. chance: the probability
    that it ends better than the best trial known, and chance_of_new: that of one that has just
    begun.
    """

    end: float
    low: float
    high: float
    chance: float
    chance_of_new: float


class Forecasts:
    """The rule, and its forecasts of each trial by the epochs at which they were made."""

    def __init__(self, objective: Objective, *, max_t: int, grace: int, peers: int) -> None:
        self.made: dict[str, dict[int, Forecast]] = {}
        self._sign, self._max_t, self._grace, self._peers = objective.sign, max_t, grace, peers
        self._epochs = milestones(max_t)
        self._losses: dict[str, list[float]] = {}  # trial_id -> at each milestone that it came to
        self._stopped: set[str] = set()

    def goes_on(self, trial_id: str, epoch: int, loss: float) -> bool:
        """Record a finite loss and tell whether the trial goes on."""
        losses = self._losses.setdefault(trial_id, [])
        self._stopped.discard(trial_id)  # it went on: under the settings of before a resume
        came = bisect_right(self._epochs, epoch)  # milestones that the trial has come to
        if came == len(losses):
            return True
        losses += [loss] * (came - len(losses))
        is_early = epoch < self._grace or len(self._losses) <= self._peers
        if is_early or came == len(self._epochs):
            return True
        forecast = self._forecast(trial_id)
        self.made.setdefault(trial_id, {})[epoch] = forecast
        left = 1 - epoch / self._max_t
        if forecast.chance >= left * forecast.chance_of_new:
            return True
        self._stopped.add(trial_id)
        return False

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        """What was expected of a trial, by the epochs as text, as plain numbers."""
        return {
            str(epoch): asdict(forecast) for epoch, forecast in self.made.get(trial_id, {}).items()
        }

    def _forecast(self, trial_id: str) -> Forecast:
        latest = list(self._losses)[-_MOST:]
        furthest = sorted(self._losses, key=lambda i: -len(self._losses[i]))[:_MOST]
        ids = list(dict.fromkeys([*latest, *furthest, trial_id]))
        model = CurveModel(self._table(ids))
        ends = model.ends()
        index = ids.index(trial_id)
        is_rival_N = [i != trial_id and i not in self._stopped for i in ids]
        rival = int(np.argmin(np.where(is_rival_N, ends.mean_N, np.inf)))
        best = float(ends.mean_N[rival]), float(ends.sd_N[rival])
        of_new = model.ends_of_new().chances(*best)[: len(latest)].mean()
        scaled = ends.mean_N[index] + ends.sd_N[index] * np.array([-1, 0, 1])
        low, end, high = sorted((self._sign * model.scale.losses(scaled)).tolist())
        return Forecast(end, low, high, float(ends.chances(*best)[index]), float(of_new))

    def _table(self, ids: Sequence[str]) -> Array:
        """The losses of these trials at the milestones; NaN from where one has not come to."""
        loss_NK = np.full((len(ids), len(self._epochs)), np.nan)
        for loss_K, i in zip(loss_NK, ids, strict=True):
            loss_K[: len(self._losses[i])] = self._losses[i]
        return loss_NK
