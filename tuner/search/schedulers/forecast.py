"""Stops a trial when a new one has the better chance, for its cost, to become the best."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tuner.search.schedulers import GraceSettings, stopping_scheduler
from tuner.spec.sections import Objective


class ForecastSettings(GraceSettings):
    """Stopping by predicted ends: a trial goes on while its chance to become the best, for what it
    costs, is that of a new one.
    """

    name: Literal["forecast"] = "forecast"
    peers: int = Field(
        3, ge=2, description="how many others must have reported before a trial can be stopped"
    )

    cost: Literal["epochs", "seconds"] = Field(
        "epochs",
        description="what a chance is weighed by: the epochs left, or the seconds left, which is "
        "fairer where batch size or network is searched. By seconds a seed gives other configs "
        "each time, and reports must have epoch_s, as those of a Learner have",
    )

    @property
    def is_timed(self) -> bool:
        return self.cost == "seconds" and bool(self.rungs())

    def rungs(self) -> tuple[float, ...]:
        from tuner.search.curves import milestones

        epochs = milestones(self.max_t)[:-1]
        return tuple(float(epoch) for epoch in epochs if epoch >= (self.grace_period or 1))

    def stopping_text(self) -> str:
        if not self.rungs():
            return "none: the grace period is as long as a trial"
        epochs = ", ".join(f"{epoch:g}" for epoch in self.rungs())
        return f"by the predicted end, at epoch {epochs}, once {self.peers} others have reported"


SETTINGS = ForecastSettings


def build(settings: ForecastSettings, objective: Objective, brackets: int) -> Any:
    """Stops trials by their predicted ends; there are no brackets."""
    from tuner.search.schedulers._stopping import Forecasts

    rule = Forecasts(
        objective,
        max_t=settings.max_t,
        grace=settings.grace_period or 1,
        peers=settings.peers,
        in_seconds=settings.is_timed,
    )
    return stopping_scheduler(objective, rule)
