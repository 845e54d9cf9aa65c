"""The arithmetic of asynchronous successive halving and Hyperband, on plain numbers.

Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), in the stopping
form that Ray Tune's ASHA has: a trial that reaches a rung goes on if it is among the best
1 / reduction_factor of those that reached it before. Brackets are Hyperband's (Li et al., JMLR
2018): halving that begins at the first rung, at the second, ..., each with rungs of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise

MOST_RUNGS = 100


class Rungs:
    """What each rung has seen, and the decision that follows.

    max_t: epochs of a whole trial. grace_period: the first rung. reduction_factor: above 1.
    Feeding the same reports in the same order gives the same decisions: that is how a journal
    rebuilds it.
    """

    def __init__(self, *, max_t: int, grace_period: float, reduction_factor: float) -> None:
        self._share = 1 / reduction_factor
        self._rungs: list[tuple[float, dict[str, float]]] = [
            (epoch, {}) for epoch in milestones(max_t, grace_period, reduction_factor)
        ]

    def goes_on(self, trial_id: str, epoch: int, score: float) -> bool:
        """Record `score` (higher is better, finite) and say whether the trial goes on."""
        import numpy as np  # a spec imports this module, and has no need of it

        for milestone, seen in reversed(self._rungs):
            if epoch < milestone or trial_id in seen:
                continue
            others = list(seen.values())
            seen[trial_id] = score
            return not others or bool(score >= np.percentile(others, (1 - self._share) * 100))
        return True


def milestones(max_t: int, grace_period: float, reduction_factor: float) -> Iterator[float]:
    """The rungs' epochs below `max_t`, ascending: grace_period times powers of the factor."""
    milestone: float = grace_period
    while milestone < max_t:
        yield milestone
        milestone *= reduction_factor


class Brackets:
    """The rungs of `count` brackets, and each trial's place by its number alone.

    Bracket b begins at rung b; the last one that there can be has none, and stops no trial. As
    with `Rungs`, the same reports in the same order give the same decisions.
    """

    def __init__(
        self, *, count: int, max_t: int, grace_period: int, reduction_factor: float
    ) -> None:
        starts = [*milestones(max_t, grace_period, reduction_factor), max_t][:count]
        assert len(starts) == count
        self._shares = shares(count, max_t, grace_period, reduction_factor)
        self._rungs = [
            Rungs(max_t=max_t, grace_period=start, reduction_factor=reduction_factor)
            for start in starts
        ]

    def goes_on(self, trial_id: str, epoch: int, score: float) -> bool:
        """See `Rungs.goes_on`, among the trials of its bracket; `trial_id` is a number as text."""
        rungs = self._rungs[bracket_of(int(trial_id), self._shares)]
        return rungs.goes_on(trial_id, epoch, score)


def too_many(max_t: int, grace_period: int, reduction_factor: float) -> bool:
    """Whether the rungs are more than MOST_RUNGS: with a factor of just 1 there is no end to them.

    Beyond that there are several within an epoch, or one at every epoch, which halves nothing.
    """
    rungs = milestones(max_t, grace_period, reduction_factor)
    return any(True for _ in islice(rungs, MOST_RUNGS, None))


def most_brackets(max_t: int, grace_period: int, reduction_factor: float) -> int:
    """How many brackets there can be: one for each rung, and one that stops no trial."""
    return sum(1 for _ in milestones(max_t, grace_period, reduction_factor)) + 1


def shares(count: int, max_t: int, grace_period: int, reduction_factor: float) -> tuple[float, ...]:
    """Each bracket's share of the trials; they sum to 1.

    As in Hyperband, brackets spend about the same: one of r rungs has trials in proportion to
    reduction_factor ** r / (r + 1).
    """
    rungs = most_brackets(max_t, grace_period, reduction_factor) - 1
    weights = [reduction_factor ** (rungs - b) / (rungs - b + 1) for b in range(count)]
    return tuple(weight / sum(weights) for weight in weights)


def expected_epochs(count: int, max_t: int, grace_period: int, reduction_factor: float) -> float:
    """How long a trial of `count` brackets lasts on average, in epochs, by the rungs alone."""
    starts = [*milestones(max_t, grace_period, reduction_factor), max_t][:count]
    of_brackets = shares(count, max_t, grace_period, reduction_factor)
    total = 0.0
    for start, share in zip(starts, of_brackets, strict=True):
        rungs = [*milestones(max_t, start, reduction_factor), max_t]
        steps = (later - rung for rung, later in pairwise(rungs))
        go_on = (reduction_factor ** -(n + 1) * step for n, step in enumerate(steps))
        total += share * (rungs[0] + sum(go_on))
    return total


def bracket_of(number: int, shares: tuple[float, ...]) -> int:
    """The bracket of trial `number`: multiples of the golden ratio spread it evenly over shares."""
    place = number * (math.sqrt(5) - 1) / 2 % 1.0
    return min(bisect_right(list(accumulate(shares)), place), len(shares) - 1)
