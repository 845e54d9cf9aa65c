"""The scheduler that Ray Tune gets, and the rules that stop trials."""

# N trials, K milestones

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

import numpy as np
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from tuner import ray_compat
from tuner.search.curves import CurveModel, milestones
from tuner.spec.sections import EPOCH_S, Objective
from tuner.spec.space.encoding import Array
from tuner.trial.trainable import REPORT, RUNS_ON

_CLEANUP_TIMEOUT_S = 5


def _stays(trial_id: str) -> bool:
    return False


class InOrder(FIFOScheduler):
    """Stops no trial by itself; trials start in order.

    leaves: whether a user's request ends a trial. controller: Tune's, or None. stopped: trial ids.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.leaves: Callable[[str], bool] = _stays
        self.controller: Any = None
        self.stopped: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        # Ray pickles it into snapshots that nobody reads; these two do not pickle
        return {**self.__dict__, "leaves": _stays, "controller": None}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Shorten Ray's wait of 10 s for workers at the end: reports are safe by then."""
        ray_compat.limit_cleanup(tune_controller, _CLEANUP_TIMEOUT_S)
        self.controller = tune_controller

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
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

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        """The predictions of a rule for a trial, by epoch; empty if no rule predicts."""
        return {}

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """None: Tune itself takes the next trial.

        Ray's FIFO would give a free worker to a trial whose own worker is just starting.
        """
        return None


class StoppingRule(Protocol):
    """Decides from reports which trials go on."""

    def goes_on(self, trial_id: str, epoch: int, loss: Any) -> bool:
        """Take in a finite loss; returns whether the trial goes on.

        Deterministic, since a resume replays the journal. An optional `forecasts(trial_id)` gives
        predictions by epoch, journaled with the trial's end. An optional `took(trial_id, epoch,
        seconds)` takes in the reported time of the epoch before its loss. A rule with
        `weighs_goals = True` gets the losses of all goals in place of the first one's.
        """


class Patience:
    """Stops a trial whose value has not improved for so many epochs."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._best: dict[str, tuple[float, int]] = {}  # trial_id -> least loss, and its epoch

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
        self.rules: list[StoppingRule] = [rule]  # each takes in every report; any may stop

    def record(self, trial_id: str, epoch: int, metrics: Mapping[str, float]) -> bool:
        if epoch <= self._came_to.get(trial_id, 0):
            return True  # run again since its last checkpoint: decided already
        self._came_to[trial_id] = epoch
        losses = self._objective.losses(metrics)
        if self._objective.allows(metrics):
            self._worst = tuple(map(max, losses, self._worst or losses))
        elif not self._worst:
            return True  # no report keeps the limits yet
        else:
            losses = self._worst
        seconds, goes_on = metrics.get(EPOCH_S, 0.0), True
        for rule in self.rules:
            if seconds > 0 and hasattr(rule, "took"):
                rule.took(trial_id, epoch, seconds)
            loss = losses if getattr(rule, "weighs_goals", False) else losses[0]
            goes_on &= rule.goes_on(trial_id, epoch, loss)
        # A trial reports after it was stopped if other settings let it go on before a resume
        (self.stopped.discard if goes_on else self.stopped.add)(trial_id)
        return goes_on

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        predicting = (rule for rule in self.rules if hasattr(rule, "forecasts"))
        return next((rule.forecasts(trial_id) for rule in predicting), {})


_MOST = 150  # latest trials, and as many of those that came furthest, for a prediction


class Forecasts:
    """The rule of `forecast`: stops trials that are predicted to end badly.

    Forecasts have `end`, `low` and `high` (one deviation off), `chance` to beat the best trial, and
    `chance_of_new`, that of a new trial; where epochs have times, also `cost`, the seconds of an
    epoch as a ratio to the median trial's.
    """

    def __init__(
        self, objective: Objective, *, max_t: int, grace: int, peers: int, in_seconds: bool = False
    ) -> None:
        self._made: dict[str, dict[str, dict[str, float]]] = {}  # trial_id -> by epoch
        self._sign, self._max_t, self._grace, self._peers = objective.sign, max_t, grace, peers
        self._epochs = milestones(max_t)
        self._losses: dict[str, list[float]] = {}  # trial_id -> at each milestone that it reached
        self._stopped: set[str] = set()
        self._in_seconds = in_seconds
        self._took: dict[str, dict[int, float]] = {}  # trial_id -> seconds of each epoch
        self._paces: dict[str, list[float]] = {}  # trial_id -> seconds per epoch by each milestone

    def took(self, trial_id: str, epoch: int, seconds: float) -> None:
        """Take in the seconds of an epoch."""
        if self._in_seconds:
            self._took.setdefault(trial_id, {})[epoch] = seconds

    def goes_on(self, trial_id: str, epoch: int, loss: float) -> bool:
        losses = self._losses.setdefault(trial_id, [])
        self._stopped.discard(trial_id)  # it went on, under the settings before a resume
        came = bisect_right(self._epochs, epoch)  # milestones that the trial has reached
        if came == len(losses):
            return True
        losses += [loss] * (came - len(losses))
        if trial_id in self._took:  # the median: a noisy machine slows single epochs
            paces = self._paces.setdefault(trial_id, [])
            paces += [median(self._took[trial_id].values())] * (came - len(paces))
        is_early = epoch < self._grace or len(self._losses) <= self._peers
        if came == len(self._epochs):
            self._took.pop(trial_id, None)
        if is_early or came == len(self._epochs):
            return True
        forecast = self._forecast(trial_id)
        self._made.setdefault(trial_id, {})[str(epoch)] = forecast
        left = (1 - epoch / self._max_t) * forecast.get("cost", 1.0)  # of the cost of a new trial
        if forecast["chance"] >= left * forecast["chance_of_new"]:
            return True
        self._stopped.add(trial_id)
        return False

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        """The forecasts of a trial, by epoch as text."""
        return self._made.get(trial_id, {})

    def _forecast(self, trial_id: str) -> dict[str, float]:
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
        chance = float(ends.chances(*best)[index])
        made = {"end": end, "low": low, "high": high, "chance": chance}
        made["chance_of_new"] = float(of_new)
        if trial_id in self._paces:
            made["cost"] = self._cost(self._paces[trial_id], ids)
        return made

    def _cost(self, paces: Sequence[float], ids: Iterable[str]) -> float:
        """These paces as a ratio to the median trial's; first epochs are often slow for all."""
        all_paces = [self._paces[i] for i in ids if i in self._paces]
        last = len(paces) - 1
        warming = median(others[last] / others[0] for others in all_paces if len(others) > last)
        return paces[last] / (median(others[0] for others in all_paces) * warming)

    def _table(self, ids: Sequence[str]) -> Array:
        """The losses of these trials at the milestones; NaN at those that they have not reached."""
        loss_NK = np.full((len(ids), len(self._epochs)), np.nan)
        for loss_K, i in zip(loss_NK, ids, strict=True):
            loss_K[: len(self._losses[i])] = self._losses[i]
        return loss_NK
