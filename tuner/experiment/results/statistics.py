"""Means and shares with their uncertainty; comparisons with the best allow for its choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb, fsum, sqrt
from statistics import NormalDist

LEVEL = 0.95  # of every interval


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `n` values, and how far it can be trusted.

    sd: of the values (n - 1). low, high: a 95 % interval (Student's) for the mean. None if n is 1.
    """

    n: int
    mean: float
    sd: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_settled(self) -> bool:
        return (
            self.low is not None
            and self.high is not None
            and not self.low <= 0 <= self.high
        )


def compute_mean(
    values: Sequence[float], *, level: float = (1 + LEVEL) / 2, least_sd: float = 0.0
) -> Mean:
    """The mean of `values`, at least one, all finite.

    level: of the interval's upper bound. least_sd: replaces the standard deviation of values that
    are all the same.
    """
    from scipy.special import stdtrit

    n = len(values)
    mean = fsum(values) / n
    if n == 1:
        return Mean(n, mean)
    sd = sqrt(fsum((value - mean) ** 2 for value in values) / (n - 1))
    sd = sd if sd > least_sd / 1e6 else least_sd
    error = sd / sqrt(n)
    reach = float(stdtrit(n - 1, level)) * error
    return Mean(n, mean, sd, error, mean - reach, mean + reach)


def compute_differences(
    others: Sequence[Mapping[int, float]], best: Mapping[int, float]
) -> list[Mean | None]:
    """The differences of each of `others` from `best`, paired by key; None without a shared key.

    best: the group with the best mean. The intervals are paired t-intervals at Bonferroni's level
    for all pairs of groups, so that all of them hold in 95 % of cases or more. Each uses the spread
    of its pair alone: a pooled one would separate too many groups whose variances differ.
    """
    groups = [values for values in (best, *others) if values]
    level = 1 - (1 - LEVEL) / 2 / max(comb(len(groups), 2), 1)
    # Values of few digits, as accuracies are, often differ by the same with every one of few keys
    ordered = [sorted(set(values.values())) for values in groups]
    resolution = min(
        (b - a for values in ordered for a, b in pairwise(values)), default=0.0
    )
    least_sd = resolution / sqrt(6)  # of rounding to it
    pairs = [
        [values[key] - best[key] for key in values if key in best] for values in others
    ]
    return [
        compute_mean(pair, level=level, least_sd=least_sd) if pair else None
        for pair in pairs
    ]


def wilson(
    share: float, n: int, *, among: int = 1, level: float = LEVEL
) -> tuple[float, float]:
    """Wilson's score interval (JASA 1927), of 95 % by default, for a `share` of `n` cases.

    among: how many shares this is the best of, by Sidak's level (JASA 1967).

    >>> [round(bound, 4) for bound in wilson(0.4, 50)]
    [0.2761, 0.5382]
    """
    z = NormalDist().inv_cdf((1 + level ** (1 / among)) / 2)
    centre = share + z**2 / (2 * n)
    weight = 1 + z**2 / n
    reach = z * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, (centre - reach) / weight), min(1.0, (centre + reach) / weight)
