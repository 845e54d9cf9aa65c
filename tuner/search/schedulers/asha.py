"""Asynchronous successive halving and Hyperband, on plain numbers.

Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), in the stopping
form of Ray Tune's ASHA: a trial that reaches a rung goes on if it is among the best
1 / reduction_factor of those that reached it before. A lot decides between equal values, as of
accuracies at chance. Brackets are Hyperband's (Li et al., JMLR 2018): each begins one rung later.
With several goals a trial is among the best by its own weights (see `tuner.search.goals`).
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, islice, pairwise
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tuner.errors import Fault
from tuner.search.schedulers import stopping_scheduler
from tuner.spec.schedulers import SchedulerSettings
from tuner.spec.sections import Objective
from tuner.spec.settings import FaultsError
from tuner.wording import format_number

MAX_RUNGS = 100
# Trials that the halvings of a first rung by default leave to train to their end
_WHOLE = 3


class AshaSettings(SchedulerSettings):
    """Asynchronous successive halving (Li et al., MLSys 2020), counted in epochs."""

    name: Literal["asha"] = "asha"
    grace_period: int | None = Field(
        None,
        ge=1,
        description="the epoch before which no trial is stopped. Unless set it follows from the "
        "number of trials: the fewer there are, the later it is, and below 9 (with ASHA 3 * "
        "reduction_factor) none is stopped. Where brackets are set, or time alone ends the search, "
        "it is 1",
    )
    reduction_factor: float = Field(
        4,
        gt=1,
        description="at a rung, one in so many trials goes on; between equal values, as of "
        "accuracies at chance, a lot decides",
    )
    brackets: int | None = Field(
        None,
        ge=1,
        description="how many brackets of Hyperband there are, each of which begins one rung later "
        "than the one before, for trials that look bad at first; default 1, for "
        "bohb 2",
    )
    dealt_at: int | None = Field(
        None,
        ge=1,
        description="the max_t by whose rungs trials are dealt to brackets; a resume with a larger "
        "max_t sets it, so that each trial keeps its bracket. Unless set it is max_t",
    )

    @model_validator(mode="after")
    def _check_grace_period(self) -> Self:
        if self.grace_period and self.grace_period > self.max_t:
            rule = f"must be at most max_t, got {self.grace_period} and {self.max_t}"
            raise FaultsError(Fault("grace_period", rule))
        return self

    @model_validator(mode="after")
    def _check_rungs(self) -> Self:
        # A factor near 1 makes a rung at every epoch, or several within one
        if any(True for _ in islice(self._generate_rungs(), MAX_RUNGS, None)):
            rule = f"must be larger: it makes more than {MAX_RUNGS} rungs up to max_t"
            raise FaultsError(Fault("reduction_factor", rule, self.reduction_factor))
        if self.brackets and self.brackets > self.max_brackets:
            rule = f"must be at most {self.max_brackets}, one more than there are rungs"
            raise FaultsError(Fault("brackets", rule, self.brackets))
        return self

    def settle(self, trials: int | None) -> AshaSettings:
        """These settings with a grace period, which still counts as unset."""
        if self.grace_period is not None:
            return self
        values = {**dict(self), "grace_period": self._compute_first_rung(trials)}
        return self.model_construct(_fields_set=self.model_fields_set, **values)

    def _compute_first_rung(self, trials: int | None) -> int:
        """The first epoch to stop trials at.

        With few trials, early comparisons often stop the best (benchmarks/searchers.md): 3 reach
        the end.
        """
        if trials is None or self.brackets is not None:
            return 1
        halvings = math.floor(math.log(trials / _WHOLE, self.reduction_factor) + 1e-9)
        epoch = math.ceil(self.max_t / self.reduction_factor ** max(halvings, 0) - 1e-9)
        return max(epoch, 1)

    def describe_first_rung(self) -> str | None:
        if "grace_period" in self.model_fields_set or self.grace_period in (None, 1):
            return None
        rungs = self.rungs()
        first = f"epoch {format_number(float(rungs[0]))}" if rungs else "none"
        return f"{first}, for so few trials; scheduler.grace_period sets another"

    def extend(self, max_t: int) -> AshaSettings:
        """Rungs below the old max_t and brackets stay; further rungs follow if there are any."""
        changes: dict[str, int] = {
            "max_t": max_t,
            "dealt_at": self.dealt_at or self.max_t,
        }
        if not self.rungs():
            changes["grace_period"] = max_t
        return self.model_copy(update=changes)

    @property
    def max_brackets(self) -> int:
        """One for each rung, and one that stops no trial."""
        return self._levels + 1

    @property
    def _levels(self) -> int:
        """The number of rungs by which trials are dealt to brackets."""
        return sum(rung < (self.dealt_at or self.max_t) for rung in self.rungs())

    def count_brackets(self, default: int) -> int:
        return self.brackets or min(default, self.max_brackets)

    def rungs(self) -> tuple[float, ...]:
        return tuple(self._generate_rungs())

    def list_starts(self, brackets: int) -> list[float]:
        """The first rung of each bracket; `max_t` for one that stops no trial."""
        return [*self.rungs(), self.max_t][:brackets]

    def compute_shares(self, brackets: int) -> tuple[float, ...]:
        """Each bracket's share of the trials, as in Hyperband, so that all spend the same."""
        rungs = self._levels
        weights = [
            self.reduction_factor ** (rungs - b) / (rungs - b + 1)
            for b in range(brackets)
        ]
        return tuple(weight / sum(weights) for weight in weights)

    def estimate_epochs(self, brackets: int) -> float:
        """The average length of a trial."""
        total = 0.0
        for start, share in zip(
            self.list_starts(brackets), self.compute_shares(brackets), strict=True
        ):
            rungs = [*(rung for rung in self.rungs() if rung >= start), self.max_t]
            steps = (later - rung for rung, later in pairwise(rungs))
            trained = (
                self.reduction_factor ** -(n + 1) * step for n, step in enumerate(steps)
            )
            total += share * (rungs[0] + sum(trained))
        return total

    def stopping_text(self) -> str:
        if not self.rungs():
            return "none: the grace period is as long as a trial"
        epochs = ", ".join(format_number(float(rung)) for rung in self.rungs())
        factor = format_number(self.reduction_factor)
        return f"ASHA at epoch {epochs}: the best 1 in {factor} goes on"

    def describe_brackets(self, brackets: int) -> str:
        starts = [
            *(f"at epoch {format_number(float(rung))}" for rung in self.rungs()),
            "never",
        ]
        shares = zip(self.compute_shares(brackets), starts, strict=False)
        first, *others = (f"{share:.0%} {start}" for share, start in shares)
        first = first.replace("%", "% of trials")
        return f"{brackets}, first compared: {', '.join([first, *others])}"

    def _generate_rungs(self) -> Iterator[float]:
        milestone: float = self.grace_period or 1
        while milestone < self.max_t:
            yield milestone
            milestone *= self.reduction_factor


SETTINGS = AshaSettings


def build(settings: AshaSettings, objective: Objective, brackets: int) -> Any:
    if not objective.others:
        return stopping_scheduler(objective, Brackets(settings, brackets))
    from tuner.search.goals import GoalRung

    return stopping_scheduler(objective, Brackets(settings, brackets, GoalRung))


def draw_lot(trial_id: str) -> float:
    """A number from 0 to 1 that depends on the trial alone, in any process."""
    digest = blake2b(trial_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


# The negated loss, and the lot, which decides between equal ones
Score = tuple[float, float]


@dataclass(slots=True)
class _Rung:
    """The scores of the trials at a rung, ascending."""

    reduction_factor: float
    trials: set[str] = field(default_factory=set)
    scores: list[Score] = field(default_factory=list)

    def record_loss(self, trial_id: str, loss: float) -> bool:
        score = (-loss, draw_lot(trial_id))
        least = self.compute_cutoff()
        self.trials.add(trial_id)
        insort(self.scores, score)
        return least is None or score >= least

    def compute_cutoff(self) -> Score | None:
        """`np.percentile` of the scores, or None; lots are interpolated between equal values."""
        if not self.scores:
            return None
        # In numpy's steps, to its last bit
        quantile = (1 - 1 / self.reduction_factor) * 100 / 100
        position = (len(self.scores) - 1) * quantile
        index = int(position)
        share = position - int(position)
        below = self.scores[index]
        above = self.scores[min(index + 1, len(self.scores) - 1)]
        value = _interpolate(below[0], above[0], share)
        if below[0] == above[0]:
            return value, _interpolate(below[1], above[1], share)
        return value, below[1] if share == 0 else 0.0


def _interpolate(below: float, above: float, share: float) -> float:
    """As numpy interpolates, to the last bit."""
    if share < 0.5:
        return below + (above - below) * share
    return above - (above - below) * (1 - share)


class Brackets:
    """The rungs of `count` brackets; a trial's bracket follows from its number.

    kind: makes a rung for a reduction factor; a GoalRung for several goals.
    """

    def __init__(
        self,
        settings: AshaSettings,
        count: int = 1,
        kind: Callable[[float], Any] = _Rung,
    ) -> None:
        self.weighs_goals = kind is not _Rung
        self._ends = list(accumulate(settings.compute_shares(count)))
        self._rungs = [
            [
                (epoch, kind(settings.reduction_factor))
                for epoch in settings.rungs()
                if epoch >= start
            ]
            for start in settings.list_starts(count)
        ]

    def goes_on(self, trial_id: str, epoch: int, loss: Any) -> bool:
        """The decision at the last rung that the trial has reached, if it is new to it."""
        for milestone, rung in reversed(
            self._rungs[self.choose_bracket(int(trial_id))]
        ):
            if epoch >= milestone and trial_id not in rung.trials:
                return bool(rung.record_loss(trial_id, loss))
        return True

    def choose_bracket(self, trial: int) -> int:
        """The bracket of a trial: multiples of the golden ratio spread evenly over the shares."""
        position = trial * (math.sqrt(5) - 1) / 2 % 1.0
        return min(bisect_right(self._ends, position), len(self._ends) - 1)
