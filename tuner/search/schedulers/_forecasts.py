"""The rule of `forecast`: what is expected of each trial, and whether it goes on."""

# N trials, K milestones

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tuner.search.curves import Array, CurveModel, milestones
from tuner.spec.sections import Objective

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
