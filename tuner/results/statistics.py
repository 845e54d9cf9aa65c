"""Means with what they are worth: standard errors, t-intervals, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, sqrt
from typing import Any

LEVEL = 0.95  # of every interval


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `n` values, and how far it can be trusted.

    sd: the values' standard deviation (n - 1). standard_error: the mean's. low, high: the bounds
    of Student's interval of 95 % confidence for what the mean estimates. All four are None where
    n is 1: one value tells nothing of its spread.
    """

    n: int
    mean: float
    sd: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_settled(self) -> bool:
        """Whether 0 lies outside of the interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of `values`, at least one, all finite."""
    n = len(values)
    mean = fsum(values) / n
    if n == 1:
        return Mean(n, mean)
    from scipy.special import stdtrit

    sd = sqrt(fsum((value - mean) ** 2 for value in values) / (n - 1))
    error = sd / sqrt(n)
    reach = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
    return Mean(n, mean, sd, error, mean - reach, mean + reach)


def paired_difference(values: Mapping[int, float], reference: Mapping[int, float]) -> Mean | None:
    """The mean of values[k] - reference[k] over the keys of both; None where they share none.

    Pairing takes out what a key (a seed) does to both alike, so that fewer of them are needed.
    """
    shared = sorted(values.keys() & reference.keys())
    return mean_of([values[key] - reference[key] for key in shared]) if shared else None
