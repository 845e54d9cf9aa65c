"""Stopping by prediction: a trial ends when a new one has the better chance to become the best.

The chance is that of `tuner.search.curves`. It is compared, for each epoch that is left of the
trial, with that of a trial that has just begun, for each epoch of a whole one. So there is no
threshold to choose: what is stopped depends on how well the curves of this very search tell their
ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from tuner.errors import Fault
from tuner.search.schedulers import stopping_scheduler
from tuner.settings_base import FaultsError
from tuner.spec.schedulers import SchedulerSettings
from tuner.spec.sections import Objective

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingScheduler


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
        from tuner.search.curves import milestones

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
    from tuner.search.schedulers._forecasts import Forecasts

    rule = Forecasts(
        objective, max_t=settings.max_t, grace=settings.grace_period, peers=settings.peers
    )
    return stopping_scheduler(objective, rule)
