"""Several goals as one loss: each trial weighs them in its own way, so that all cover the front.

Knowles, "ParEGO" (IEEE Transactions on Evolutionary Computation, 2006), with ranks in place of
values, which need no scale; and with successive halving as in Schmucker et al., "Multi-objective
Asynchronous Successive Halving" (2021).
"""

# N reports, G goals

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tuner.spec.space.encoding import Array

_SUM = 0.05  # the share of the weighted sum, which tells points with one maximum apart
# Spread evenly, by goals
_STEPS = {2: (0.6180339887,), 3: (0.7548776662, 0.5698402910)}


def compute_goal_weights(trial: int, goals: int) -> Array:
    """The weights of a trial, by its number: positive, with the sum 1."""
    cuts = np.sort([(trial + 1) * step % 1.0 for step in _STEPS[goals]])
    return np.diff(cuts, prepend=0.0, append=1.0)


def scalarize_losses(loss_NG: Array, weight_G: Array) -> Array:
    """The augmented Chebyshev distance of N reports to the best of each goal, from 0 to 1.05."""
    ranks = [np.searchsorted(np.sort(loss_N), loss_N) for loss_N in loss_NG.T]
    share_NG = weight_G * np.stack(ranks, axis=1) / max(len(loss_NG) - 1, 1)
    distance_N: Array = share_NG.max(axis=1)
    distance_N += _SUM * share_NG.sum(axis=1)
    return distance_N


@dataclass(slots=True)
class GoalRung:
    """A rung of ASHA where a trial is compared by its own weights of several goals."""

    reduction_factor: float
    trials: dict[str, tuple[float, ...]] = field(default_factory=dict)  # their losses

    def record_loss(self, trial_id: str, losses: tuple[float, ...]) -> bool:
        self.trials[trial_id] = losses
        weights = compute_goal_weights(int(trial_id), len(losses))
        *earlier, own = scalarize_losses(
            np.array([*self.trials.values()]), weights
        ).tolist()
        return not earlier or own <= float(
            np.percentile(earlier, 100 / self.reduction_factor)
        )
