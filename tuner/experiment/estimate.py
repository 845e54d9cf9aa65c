"""What a trial is worth: the one definition of its best epoch, and of when it beats the default.

A single report is lucky or not: the least of many noisy values promises more than new data will
show. So an epoch is worth the mean of the reports around it, whose weights halve every 1.4 epochs
(less in the first 16, which change fast). The epoch that names a trial's model changes only to the
newest one, when the mean around that is better: so the checkpoint of the named epoch is always one
that was kept. `objective.choose=best_epoch` takes each report at its word.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from math import exp, isfinite
from operator import mul

from tuner.experiment.results.accuracy import estimate_interval
from tuner.spec.sections import Objective

_WIDTH = 2.0  # epochs, in which the weight of a report falls by e
_SHARE = 8  # of the reports so far, one in so many is the width at most
_STEADY = int(_SHARE * _WIDTH)  # reports, from which on the width stays
_FALL = exp(-1 / _WIDTH)
# The level of an interval of half a standard error on either side
_HALF_AN_ERROR = 0.383


class Curve:
    """The losses of a trial's reports that count, and the epoch that names its model.

    estimate: what the named epoch is worth, as a loss; None before the first finite report.
    """

    __slots__ = (
        "_epochs",
        "_is_smooth",
        "_losses",
        "_named",
        "_newest",
        "_newest_sum",
        "_sum",
        "_weight",
        "estimate",
    )

    def __init__(self, objective: Objective) -> None:
        self._is_smooth = objective.choose == "estimate"
        self._epochs = array("q")
        self._losses = array("d")
        self._named = 0
        self.estimate: float | None = None
        # While the width stays: the mean around the newest report and the sum of its weights, the
        # sum of those around the named one, and the weight of the newest among these
        self._newest = self._newest_sum = self._sum = self._weight = 0.0

    @property
    def epoch(self) -> int | None:
        return self._epochs[self._named] if self._epochs else None

    @property
    def loss(self) -> float | None:
        return self._losses[self._named] if self._losses else None

    def add(self, epoch: int, loss: float) -> bool:
        """Take the next report, if its loss is finite; returns whether it is now the named one."""
        if not isfinite(loss):
            return False
        place = len(self._losses)
        self._epochs.append(epoch)
        self._losses.append(loss)
        if not self._is_smooth:
            newest = loss
        elif place < _STEADY:
            newest = self._estimate_loss(place)
            if place:
                self.estimate = self._estimate_loss(self._named)
            if place == _STEADY - 1:
                self._begin_steady(newest)
        else:
            newest = self._take_steady(loss)
        if self.estimate is not None and not newest < self.estimate:
            # NaN, of huge losses, is not
            return False
        self._named = place
        self.estimate = newest
        self._sum = self._newest_sum
        self._weight = 1.0
        return True

    def choose_epoch(self, epochs: Iterable[int]) -> int | None:
        """The epoch of the best estimate among `epochs`, the named one first; None: it has none."""
        among = {*epochs}
        if self.epoch in among:
            return self.epoch
        places = [place for place, epoch in enumerate(self._epochs) if epoch in among]
        if not self._is_smooth:
            return (
                self._epochs[min(places, key=self._losses.__getitem__)]
                if places
                else None
            )
        return self._epochs[min(places, key=self._estimate_loss)] if places else None

    def _estimate_loss(self, place: int) -> float:
        """The weighted mean of all losses around a place."""
        losses = self._losses
        here = losses[place]
        weights, sums = _compute_weights(len(losses))
        # So that equal losses are worth the same
        differences = [loss - here for loss in losses]
        count = len(losses)
        total: float = sum(map(mul, differences, weights[count - 1 - place :]))
        return here + total / (sums[place] + sums[count - 1 - place] - 1)

    def _begin_steady(self, newest: float) -> None:
        _, sums = _compute_weights(_STEADY)
        after = _STEADY - 1 - self._named
        self._newest = newest
        self._newest_sum = sums[-1]
        self._sum = sums[self._named] + sums[after] - 1
        self._weight = _FALL**after

    def _take_steady(self, loss: float) -> float:
        """Update both means by the newest loss; returns the one around it."""
        assert self.estimate is not None
        self._newest_sum = _FALL * self._newest_sum + 1
        self._newest += (loss - self._newest) / self._newest_sum
        self._weight *= _FALL
        self._sum += self._weight
        self.estimate += (loss - self.estimate) * self._weight / self._sum
        return self._newest


@lru_cache(maxsize=4 * _STEADY)
def _compute_weights(count: int) -> tuple[list[float], list[float]]:
    """Of so many reports (the weights of those before an epoch, its own and those after it, the
    sums of the first 1, 2, ... on one side).
    """
    width = min(_WIDTH, count / _SHARE)
    falling = [exp(-distance / width) for distance in range(count)]
    return [*reversed(falling[1:]), *falling], [*accumulate(falling)]


def build_curve(values: Iterable[tuple[int, float]], objective: Objective) -> Curve:
    """The curve of (epoch, value) of the reports that count, oldest first."""
    curve = Curve(objective)
    for epoch, value in values:
        curve.add(epoch, objective.compute_loss(value))
    return curve


def beats_default(leader: float, default: float, metric: str, images: object) -> bool:
    """Whether a leader's estimate is better than the default config's by half a standard error.

    What validates better by less is often worse on new data. images: as experiment.json has them
    under "validation"; where they are unknown, any better estimate is enough.
    """
    bounds = estimate_interval(metric, leader, images, level=_HALF_AN_ERROR)
    return bounds is None or not bounds[0] <= default <= bounds[1]
