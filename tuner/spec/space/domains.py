"""Domains of hyperparameters, written as Ray Tune's calls.

`at(u)` is the value at quantile u: random search draws u, grids space it evenly, models work in the
unit cube. `str(domain)` is its text, as in `loguniform(0.0001, 0.1)`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

from tuner.spec.plain_values import convert_scalar
from tuner.spec.settings import bad_value

_LARGEST = 1e300  # so that what is computed from two or three numbers stays finite
_MAX_STEPS = 2**53
# A quantile whose value is no integer between integer bounds
_BETWEEN = (3 - math.sqrt(5)) / 2

# A hyperparameter's value: number, text, bool, None, or a list or mapping of them
Value = Any
Space = Mapping[str, Value]  # name -> Domain, constant, or a mapping of them


@dataclass(frozen=True, slots=True)
class Prior:
    """Where the best value is expected. confidence: how surely, twice as narrowly for 2."""

    value: Value
    confidence: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.confidence <= _LARGEST:
            raise bad_value("confidence must be above 0", self.confidence)
        if _has_domain(self.value):
            raise bad_value(
                "prior takes a value without domains", format_literal(self.value)
            )

    def __str__(self) -> str:
        confidence = (
            f", confidence={_format_number(self.confidence)}"
            if self.confidence != 1
            else ""
        )
        return f"prior={format_literal(self.value)}{confidence}"


class Domain(ABC):
    """The values that one hyperparameter may take."""

    @abstractmethod
    def compute_value(self, u: float) -> Value:
        """The value at quantile `u`, 0 <= u <= 1; `at(0)` and `at(1)` are the extremes."""

    @abstractmethod
    def list_extremes(self) -> tuple[Value, ...]:
        """If these values are legal, so is every value of the domain."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number of different values, a branch being one; None where it is not finite."""


@dataclass(frozen=True, slots=True)
class Numeric(Domain):
    """Numbers from `lower` to `upper`, evenly or log-evenly distributed, on multiples of `q`.

    As in Ray, an integer upper bound is exclusive unless `q` > 1. Other bounds are rounded inwards.
    """

    lower: float
    upper: float
    log: bool = False
    integer: bool = False
    q: float | None = None
    prior: Prior | None = None

    def __post_init__(self) -> None:
        name = self.name
        _check_numbers(name, self.lower, self.upper, self.q)
        if self.integer:
            for bound in (self.lower, self.upper, self.q or 1):
                if bound != int(bound):
                    raise bad_value(f"{name} takes whole numbers", bound)
        if self.lower > self.upper:
            bounds = f"{self.lower:g} and {self.upper:g}"
            raise bad_value(f"{name}: lower must be at most upper, got {bounds}")
        if self.log and self.lower <= 0:
            raise bad_value(f"{name}: lower must be above 0", self.lower)
        if self.q is not None and self.q <= 0:
            raise bad_value(f"{name}: q must be above 0", self.q)
        largest = max(abs(self.lower), abs(self.upper))
        if self.step is not None and largest / self.step > _MAX_STEPS:
            raise bad_value(
                f"{name} has more values than a float can tell apart: {self}"
            )
        if self.first > self.last:
            raise bad_value(f"{name} has no values between its bounds: {self}")
        if self.prior is not None and not self.first <= self.prior.value <= self.last:
            bounds = f"{self.first:g} to {self.last:g}"
            raise bad_value(f"{name}: prior must lie in {bounds}", self.prior.value)

    @property
    def name(self) -> str:
        kind = ("log" if self.log else "") + ("randint" if self.integer else "uniform")
        return f"q{kind}" if self.q is not None else kind

    @property
    def step(self) -> float | None:
        """The distance between neighbouring values; None where the domain is continuous."""
        if self.q is not None:
            return self.q
        return 1 if self.integer else None

    @property
    def first(self) -> float:
        if self.step is None:
            return self.lower
        multiple = _round_whole(self.lower / self.step, math.ceil)
        return round_float(multiple * self.step)

    @property
    def last(self) -> float:
        if self.step is None:
            return self.upper
        if self.integer and self.step == 1:
            return self.upper - 1
        multiple = _round_whole(self.upper / self.step, math.floor)
        return round_float(multiple * self.step)

    @property
    def size(self) -> int | None:
        if self.step is None:
            return 1 if self.lower == self.upper else None
        return round((self.last - self.first) / self.step) + 1

    def compute_value(self, u: float) -> Value:
        if self.integer:  # each value has a cell of width `step` above it
            above = self.last + (self.step or 1)
            return self._cast(
                self._interpolate(
                    self.first, above, u, partial(_round_whole, to=math.floor)
                )
            )
        return self._cast(self._interpolate(self.first, self.last, u, round))

    def list_extremes(self) -> tuple[Value, ...]:
        values = [self.first, self.last]
        if not self.integer:  # between whole bounds lie values that are not
            values.insert(
                1,
                min(self.first + self.q, self.last)
                if self.q
                else self.compute_value(_BETWEEN),
            )
        return tuple(dict.fromkeys(map(self._cast, values)))

    def _interpolate(
        self, low: float, high: float, u: float, snap: Callable[[float], int]
    ) -> float:
        if u <= 0 or u >= 1:  # exp(log(x)) is not always x
            return self.first if u <= 0 else self.last
        if self.log:
            value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
        else:
            value = low + u * (high - low)
        if self.step is not None:
            value = snap(value / self.step) * self.step
        return min(max(value, self.first), self.last)

    def _cast(self, value: float) -> Value:
        if self.integer:
            return round(value)
        return round_float(value) if self.q is not None else float(value)

    def __str__(self) -> str:
        return _format_call(self.name, self.lower, self.upper, self.q, prior=self.prior)


@dataclass(frozen=True, slots=True)
class Normal(Domain):
    """Normally distributed numbers, rounded to multiples of `q` if it is set."""

    mean: float = 0.0
    sd: float = 1.0
    q: float | None = None

    def __post_init__(self) -> None:
        _check_numbers("randn", self.mean, self.sd, self.q)
        if self.sd <= 0:
            raise bad_value("randn: sd must be above 0", self.sd)
        if self.q is not None and self.q <= 0:
            raise bad_value("qrandn: q must be above 0", self.q)

    @property
    def size(self) -> int | None:
        return None

    def compute_value(self, u: float) -> Value:
        # The domain is unbounded, so its tails are cut at one in ten thousand on each side
        value = NormalDist(self.mean, self.sd).inv_cdf(min(max(u, 1e-4), 1 - 1e-4))
        if self.q is None:
            return value
        return round_float(round(value / self.q) * self.q)

    def list_extremes(self) -> tuple[Value, ...]:
        return (self.compute_value(0.5),)

    def __str__(self) -> str:
        return _format_call(
            "randn" if self.q is None else "qrandn", self.mean, self.sd, self.q
        )


@dataclass(frozen=True, slots=True)
class Choice(Domain):
    """One of `values`; a mapping is a branch with its own space. name: of the call."""

    values: tuple[Value, ...]
    name: str = "choice"
    prior: Prior | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise bad_value(f"{self.name} needs at least one value, got []")
        if self.prior is not None and self.expected is None:
            rule = (
                f"{self.name}: prior must be one of {format_literal(list(self.values))}"
            )
            raise bad_value(rule, self.prior.value)

    @property
    def expected(self) -> int | None:
        """The number of the value that the prior names; None without one."""
        wanted = None if self.prior is None else format_literal(self.prior.value)
        return next(
            (n for n, v in enumerate(self.values) if format_literal(v) == wanted), None
        )

    @property
    def size(self) -> int | None:
        return len(self.values)

    def compute_value(self, u: float) -> Value:
        return self.values[self.compute_index(u)]

    def compute_index(self, u: float) -> int:
        return min(int(u * len(self.values)), len(self.values) - 1)

    def list_extremes(self) -> tuple[Value, ...]:
        return self.values

    def __str__(self) -> str:
        if self.name == "constant":
            return f"constant({format_literal(self.values[0])})"
        prior = "" if self.prior is None else f", {self.prior}"
        return f"{self.name}({format_literal(list(self.values))}{prior})"


def constant(value: Value) -> Domain:
    """A domain of one value, for lists and mappings. Raises FaultsError for domains in it."""
    if _has_domain(value):
        raise bad_value("constant takes a value without domains", format_literal(value))
    format_literal(value)
    return Choice((list(value) if isinstance(value, tuple) else value,), "constant")


def _has_domain(value: Value) -> bool:
    match value:
        case Mapping():
            return any(map(_has_domain, value.values()))
        case list() | tuple():
            return any(map(_has_domain, value))
    return isinstance(value, Domain)


def format_literal(value: Value) -> str:
    """`value` as text that `parse_domain` reads back; raises FaultsError where it is not plain."""
    value = convert_scalar(value)
    match value:
        case Domain():
            return str(value)
        case bool() | None | str():
            return repr(value)
        case int() | float() if abs(value) <= _LARGEST:
            return _format_number(value)
        case list() | tuple():
            return f"[{', '.join(map(format_literal, value))}]"
        case Mapping() if all(isinstance(name, str) for name in value):
            items = (
                f"{format_literal(name)}: {format_literal(inner)}"
                for name, inner in value.items()
            )
            return f"{{{', '.join(items)}}}"
    raise bad_value("must be plain: number, text, bool, None, list or mapping", value)


def _format_call(
    name: str, *arguments: float | None, prior: Prior | None = None
) -> str:
    parts = [_format_number(value) for value in arguments if value is not None]
    if prior is not None:
        parts.append(str(prior))
    return f"{name}({', '.join(parts)})"


def _check_numbers(name: str, *numbers: float | None) -> None:
    """Raise FaultsError for a number too large for floats, or for calculations with it."""
    for number in numbers:
        if number is not None and not abs(number) <= _LARGEST:
            raise bad_value(
                f"{name} takes finite numbers, at most {_LARGEST:g}", number
            )


def _format_number(value: float) -> str:
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def round_float(value: float) -> float:
    """`value` without the rounding error of a product: 3 * 0.1 is 0.30000000000000004."""
    return float(f"{value:.12g}")


def _round_whole(x: float, to: Callable[[float], int]) -> int:
    """`x`, rounded by `to` unless it is a whole number up to a rounding error."""
    return round(x) if math.isclose(x, round(x), rel_tol=1e-9) else to(x)
