"""The arithmetic of asynchronous successive halving, on plain numbers.

Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020), in the stopping
form that Ray Tune's ASHA has: a trial that reaches a rung goes on if it is among the best
1 / reduction_factor of those that reached it before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


class Rungs:
    """What each rung has seen, and the decision that follows.

    max_t: epochs of a whole trial. grace_period: the first rung. reduction_factor: above 1.
    Feeding the same reports in the same order gives the same decisions: that is how a journal
    rebuilds it.
    """

    def __init__(self, *, max_t: int, grace_period: int, reduction_factor: float) -> None:
        self._share = 1 / reduction_factor
        self._rungs: list[tuple[float, dict[str, float]]] = [
            (epoch, {}) for epoch in milestones(max_t, grace_period, reduction_factor)
        ]

    def goes_on(self, trial_id: str, epoch: int, score: float) -> bool:
        """Record `score` (higher is better, finite) and say whether the trial goes on."""
        for milestone, seen in reversed(self._rungs):
            if epoch < milestone or trial_id in seen:
                continue
            others = list(seen.values())
            seen[trial_id] = score
            cutoff = np.percentile(others, (1 - self._share) * 100) if others else -np.inf
            return bool(score >= cutoff)
        return True


def milestones(max_t: int, grace_period: int, reduction_factor: float) -> Iterator[float]:
    """The rungs' epochs below `max_t`, ascending: grace_period times powers of the factor."""
    milestone: float = grace_period
    while milestone < max_t:
        yield milestone
        milestone *= reduction_factor
