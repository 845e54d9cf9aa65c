"""Schedulers stop trials. Each module is a scheduler (settings and a rule), or `_machinery`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from tuner.errors import Fault
from tuner.spec.schedulers import SchedulerSettings
from tuner.spec.settings import FaultsError
from tuner.wording import format_number

if TYPE_CHECKING:
    from tuner.search.schedulers._stopping import StoppingRule, StoppingScheduler
    from tuner.spec.sections import Objective

_WHOLE = 3  # trials that the halvings of a first rung by default leave to train to their end


class GraceSettings(SchedulerSettings):
    """The settings that all schedulers of this package share."""

    grace_period: int | None = Field(
        None,
        ge=1,
        description="the epoch before which no trial is stopped. Unless set it follows from the "
        "number of trials: the fewer there are, the later it is, and below 9 (with ASHA 3 * "
        "reduction_factor) none is stopped. Where brackets are set, or time alone ends the search, "
        "it is 1",
    )

    @model_validator(mode="after")
    def _check_grace_period(self) -> Self:
        if self.grace_period and self.grace_period > self.max_t:
            rule = f"must be at most max_t, got {self.grace_period} and {self.max_t}"
            raise FaultsError(Fault("grace_period", rule))
        return self

    def settle(self, trials: int | None) -> GraceSettings:
        """These settings with a grace period, which still counts as unset."""
        if self.grace_period is not None:
            return self
        values = {**dict(self), "grace_period": self.choose_grace_period(trials)}
        return self.model_construct(_fields_set=self.model_fields_set, **values)

    def choose_grace_period(self, trials: int | None) -> int:
        """The grace period for so many trials; None: time alone ends the search."""
        return compute_first_rung(self.max_t, trials, reduction_factor=3)

    def describe_first_rung(self) -> str | None:
        if "grace_period" in self.model_fields_set or self.grace_period in (None, 1):
            return None
        rungs = self.rungs()
        first = f"epoch {format_number(float(rungs[0]))}" if rungs else "none"
        return f"{first}, for so few trials; scheduler.grace_period sets another"


def compute_first_rung(max_t: int, trials: int | None, *, reduction_factor: float) -> int:
    """The first epoch to stop trials at; `trials` None: time ends the search.

    With few trials, early comparisons often stop the best (benchmarks/searchers.md): 3 reach the
    end.
    """
    if trials is None:
        return 1
    halvings = math.floor(math.log(trials / _WHOLE, reduction_factor) + 1e-9)
    return max(math.ceil(max_t / reduction_factor ** max(halvings, 0) - 1e-9), 1)


def stopping_scheduler(objective: Objective, rule: StoppingRule) -> StoppingScheduler:
    """Ray Tune's scheduler that stops trials by `rule`."""
    from tuner.search.schedulers._stopping import StoppingScheduler

    return StoppingScheduler(objective, rule)
