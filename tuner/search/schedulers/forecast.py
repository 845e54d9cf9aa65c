"""Stopping by prediction: a trial ends when a new one has the better chance to become the best.

The chance is that of `tuner.search.curves`. It is compared, for each epoch that is left of the
trial, with that of a trial that has just begun, for each epoch of a whole one. So there is no
threshold to choose: what is stopped depends on how well the curves of this very search tell their
ends.
"""

# N trials, K milestones

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from tuner.errors import Fault
from tuner.search.curves import Array, CurveModel, milestones
from tuner.search.schedulers import stopping_scheduler
from tuner.settings_base import FaultsError
from tuner.spec.schedulers import SchedulerSettings
from tuner.spec.sections import Objective

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingScheduler

_MOST = 150  # of the latest trials, and of those that came furthest, that a prediction is made from


class ForecastSettings(SchedulerSettings):
    """Stopping by predicted ends, counted in epochs.

    max_t: upper bound of a trial in epochs, inclusive. grace_period: the epoch before which no
    trial is stopped. peers: how many others must have reported before a trial can be stopped.
    """

    name: Literal["forecast"] = "forecast"
    grace_period: int = Field(1, ge=1)
    peers: int = Field(3, ge=2)

    @model_validator(mode="after")
    def _fits_max_t(self) -> Self:
        if self.grace_period > self.max_t:
            rule = f"must be at most max_t, got {self.grace_period} and {self.max_t}"
            raise FaultsError(Fault("grace_period", rule))
        return self

    def rungs(self) -> tuple[float, ...]:
        epochs = milestones(self.max_t)[:-1]
        return tuple(float(epoch) for epoch in epochs if epoch >= self.grace_period)

    def stopping_text(self) -> str:
        if not self.rungs():
            return "none: the grace period is as long as a trial"
        epochs = ", ".join(f"{epoch:g}" for epoch in self.rungs())
        return f"by the predicted end, at epoch {epochs}, once {self.peers} others have reported"


SETTINGS = ForecastSettings


def build(settings: ForecastSettings, objective: Objective, brackets: int) -> StoppingScheduler:
    """Stops trials by their predicted ends; there are no brackets."""
    return stopping_scheduler(objective, Forecasts(settings, objective))


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

    def __init__(self, settings: ForecastSettings, objective: Objective) -> None:
        self.made: dict[str, dict[int, Forecast]] = {}
        self._settings, self._sign = settings, objective.sign
        self._epochs = milestones(settings.max_t)
        self._losses: dict[str, list[float]] = {}  # trial_id -> at each milestone that it came to
        self._stopped: set[str] = set()

    def goes_on(self, trial_id: str, epoch: int, loss: float) -> bool:
        """Record a finite loss and tell whether the trial goes on."""
        losses = self._losses.setdefault(trial_id, [])
        came = bisect_right(self._epochs, epoch)  # milestones that the trial has come to
        if came == len(losses):
            return True
        losses += [loss] * (came - len(losses))
        is_early = epoch < self._settings.grace_period or len(self._losses) <= self._settings.peers
        if is_early or came == len(self._epochs):
            return True
        forecast = self._forecast(trial_id)
        self.made.setdefault(trial_id, {})[epoch] = forecast
        left = 1 - epoch / self._settings.max_t
        if forecast.chance >= left * forecast.chance_of_new:
            return True
        self._stopped.add(trial_id)
        return False

    def forecasts(self, trial_id: str) -> dict[str, dict[str, float]]:
        """What was expected of a trial, by the epochs as text, as plain numbers."""
        return {str(epoch): asdict(one) for epoch, one in self.made.get(trial_id, {}).items()}

    def _forecast(self, trial_id: str) -> Forecast:
        latest = list(self._losses)[-_MOST:]
        furthest = sorted(self._losses, key=lambda i: -len(self._losses[i]))[:_MOST]
        ids = list(dict.fromkeys([*latest, *furthest, trial_id]))
        model = CurveModel(self._table(ids))
        ends = model.ends()
        own = ids.index(trial_id)
        is_rival_N = [i != trial_id and i not in self._stopped for i in ids]
        rival = int(np.argmin(np.where(is_rival_N, ends.mean_N, np.inf)))
        best = float(ends.mean_N[rival]), float(ends.sd_N[rival])
        of_new = model.ends_of_new().chances(*best)[: len(latest)].mean()
        scaled = ends.mean_N[own] + ends.sd_N[own] * np.array([-1, 0, 1])
        low, end, high = sorted((self._sign * model.scale.losses(scaled)).tolist())
        return Forecast(end, low, high, float(ends.chances(*best)[own]), float(of_new))

    def _table(self, ids: Sequence[str]) -> Array:
        """The losses of these trials at the milestones; NaN from where one has not come to."""
        loss_NK = np.full((len(ids), len(self._epochs)), np.nan)
        for loss_K, i in zip(loss_NK, ids, strict=True):
            loss_K[: len(self._losses[i])] = self._losses[i]
        return loss_NK
