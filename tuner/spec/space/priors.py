"""Where the best values are expected, as `loguniform(1e-4, 1, prior=1e-2)` says: in the unit cube.

A number's prior is a normal distribution around it, cut off at the bounds; of a choice, one half
goes to the value that is expected, and one half to all of them evenly. What a prior says fades as
trials end, after Mallik et al., "PriorBand" (2023), and Hvarfner et al., "piBO" (2022). As a prior
may be wrong, half of each density, and at least half of the draws, are even, and a prior counts
less where trials of a high density had high losses.
"""

# M points, D columns

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# scipy.special is imported where it is first used: most spaces have no prior
import scipy

from tuner.spec.space.domains import Choice, Numeric
from tuner.spec.space.encoding import Array, Column, Encoding
from tuner.spec.space.spaces import quantile

_SD = 0.2  # of a number's prior, as a share of its domain, for a confidence of 1
_STRENGTH = 10.0  # trials that a prior's logarithm counts in full for
_EVEN = 0.5  # the share of the even distribution
_EARLY = 40  # draws after which the priors' share of them is halved
_FEW = 3  # trials; fewer cannot judge a prior
# A prior is half trusted where trials rank so many deviations worse than by chance
_BENEFIT = 1.0


@dataclass(frozen=True, slots=True)
class _Near:
    """A normal distribution, cut off at 0 and 1."""

    centre: float
    sd: float

    def compute_quantile(self, u: float) -> float:
        low, high = self._compute_bounds()
        share = low + u * (high - low)
        draw = self.centre + self.sd * scipy.special.ndtri(share)
        return float(np.clip(draw, 0.0, 1.0))

    def compute_density(self, u_M: Array) -> Array:
        """Relative to the even distribution."""
        low, high = self._compute_bounds()
        area = math.sqrt(2 * math.pi) * self.sd * (high - low)
        deviation_M = (u_M - self.centre) / self.sd
        return np.asarray(np.exp(-0.5 * deviation_M**2) / area)

    def _compute_bounds(self) -> tuple[float, float]:
        low = -self.centre / self.sd
        high = (1 - self.centre) / self.sd
        return (
            float(scipy.special.ndtr(low)),
            float(scipy.special.ndtr(high)),
        )


@dataclass(frozen=True, slots=True)
class _Option:
    """Option `number` of `count` with a `share`; the others share what is left evenly."""

    number: int
    count: int
    share: float

    def compute_quantile(self, u: float) -> float:
        if u < self.share or self.count == 1:
            return (self.number + 0.5) / self.count
        other = min(
            int((u - self.share) / (1 - self.share) * (self.count - 1)), self.count - 2
        )
        if other >= self.number:
            other += 1
        return (other + 0.5) / self.count

    def compute_density(self, u_M: Array) -> Array:
        if self.count == 1:
            return np.ones_like(u_M)
        number_M = np.minimum((u_M * self.count).astype(int), self.count - 1)
        others = (1 - self.share) / (self.count - 1)
        share_M = np.where(number_M == self.number, self.share, others)
        return self.count * share_M


class Priors:
    """The priors of a space's columns; false if it has none."""

    def __init__(self, encoding: Encoding) -> None:
        priors = {d: _build_prior(column) for d, column in enumerate(encoding.columns)}
        self._priors = {d: prior for d, prior in priors.items() if prior is not None}

    def __bool__(self) -> bool:
        return bool(self._priors)

    def transform(self, u_D: Array) -> Array:
        """The point whose quantiles in the priors are `u_D`."""
        u_D = u_D.copy()
        for d, prior in self._priors.items():
            u_D[d] = prior.compute_quantile(float(u_D[d]))
        return u_D

    def log_density(self, u_MD: Array) -> Array:
        """Of each point, relative to the even distribution; inactive columns are ignored."""
        log_M = np.zeros(len(u_MD))
        for d, prior in self._priors.items():
            active_M = ~np.isnan(u_MD[:, d])
            density_M = prior.compute_density(u_MD[active_M, d])
            density_M = _EVEN + (1 - _EVEN) * density_M
            log_M[active_M] += np.log(density_M)
        return log_M

    def estimate_trust(self, u_ND: Array, loss_N: Array) -> float:
        """From 0, where trials speak against the priors, to 1, where they do not."""
        density_N = _compute_ranks(self.log_density(u_ND))
        ends_N = _compute_ranks(loss_N)
        if len(loss_N) < _FEW:
            return 1.0
        if not density_N.any() or not ends_N.any():
            return 1.0
        agreement = -float(np.corrcoef(density_N, ends_N)[0, 1])
        return float(
            scipy.special.ndtr(agreement * math.sqrt(len(loss_N) - 1) + _BENEFIT)
        )

    def compute_bonus(self, u_MD: Array, *, trials: int, trust: float) -> Array:
        """What is added to the logarithm of each point's merit once so many trials have ended."""
        return trust * _STRENGTH / max(trials, 1) * self.log_density(u_MD)

    def sample(
        self, u_D: Array, number: int, lot: float, *, trust: float = 1.0
    ) -> Array:
        """`drawn(u_D)` if `lot`, from 0 to 1, is low; ever less often with the draw's number."""
        share = trust * (1 - _EVEN) * _EARLY / (_EARLY + number)
        if lot < share:
            return self.transform(u_D)
        return u_D


def _compute_ranks(x_N: Array) -> Array:
    """From 0 on; equal values have equal ranks."""
    _, rank_N = np.unique(x_N, return_inverse=True)
    return rank_N.astype(float)


def _build_prior(column: Column) -> _Near | _Option | None:
    domain = column.domain
    if not isinstance(domain, Numeric | Choice) or domain.prior is None:
        return None
    confidence = domain.prior.confidence
    if isinstance(domain, Numeric):
        centre = quantile(domain, domain.prior.value) or 0.0
        return _Near(centre, _SD / confidence)
    number = domain.expected or 0
    count = len(domain.values)
    if column.categories:
        named = confidence / (1 + confidence)
        return _Option(number, count, named + (1 - named) / count)
    return _Near((number + 0.5) / count, _SD / confidence)  # numbers in order
