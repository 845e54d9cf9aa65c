"""The kinds of domain, and the spaces that they make up.

Every domain answers `at(u)`: its value at quantile u. Random search draws u, a grid spaces it
evenly, and model-based searchers work in the unit cube that u spans. `str(domain)` is its text.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from tuner.errors import Fault
from tuner.settings_base import FaultsError

_LARGEST = 1e300  # of a number, so that what is computed of two or three stays finite
_MOST_STEPS = 2**53

Value = Any  # a hyperparameter's value: number, text, bool, None, or a list or mapping of them


class Domain(ABC):
    """The values that one hyperparameter may take."""

    @abstractmethod
    def at(self, u: float) -> Value:
        """The value at quantile `u`, 0 <= u <= 1; `at(0)` and `at(1)` are the extremes."""

    @abstractmethod
    def extremes(self) -> tuple[Value, ...]:
        """Values such that, if each of these is legal, the whole domain is."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """How many different values there are; None where that is not finite."""


@dataclass(frozen=True, slots=True)
class Numeric(Domain):
    """Numbers from `lower` to `upper`, evenly or log-evenly distributed, on multiples of `q`.

    As in Ray, the upper bound of an integer domain is exclusive, unless `q` > 1 makes it inclusive.
    Bounds that are no multiples of `q` are rounded inwards.
    """

    lower: float
    upper: float
    log: bool = False
    integer: bool = False
    q: float | None = None

    def __post_init__(self) -> None:
        name = self.name
        _check_numbers(name, self.lower, self.upper, self.q)
        if self.integer:
            for bound in (self.lower, self.upper, self.q or 1):
                if bound != int(bound):
                    raise FaultsError(Fault("", f"{name} takes whole numbers", bound))
        if self.lower > self.upper:
            low_high = f"{self.lower:g} and {self.upper:g}"
            raise FaultsError(Fault("", f"{name}: lower must be at most upper, got {low_high}"))
        if self.log and self.lower <= 0:
            raise FaultsError(Fault("", f"{name}: lower must be above 0", self.lower))
        if self.q is not None and self.q <= 0:
            raise FaultsError(Fault("", f"{name}: q must be above 0", self.q))
        largest = max(abs(self.lower), abs(self.upper))
        if self.step is not None and largest / self.step > _MOST_STEPS:
            raise FaultsError(
                Fault("", f"{name} has more values than a float can tell apart: {self}")
            )
        if self.first > self.last:
            raise FaultsError(Fault("", f"{name} has no values between its bounds: {self}"))

    @property
    def name(self) -> str:
        kind = ("log" if self.log else "") + ("randint" if self.integer else "uniform")
        return f"q{kind}" if self.q is not None else kind

    @property
    def step(self) -> float | None:
        """The distance between neighbouring values; None where the domain is continuous."""
        return self.q if self.q is not None else (1 if self.integer else None)

    @property
    def first(self) -> float:
        if self.step is None:
            return self.lower
        return _decimal(_ceil(self.lower / self.step) * self.step)

    @property
    def last(self) -> float:
        if self.step is None:
            return self.upper
        if self.integer and self.step == 1:
            return self.upper - 1
        return _decimal(_floor(self.upper / self.step) * self.step)

    @property
    def size(self) -> int | None:
        if self.step is None:
            return 1 if self.lower == self.upper else None
        return round((self.last - self.first) / self.step) + 1

    def at(self, u: float) -> Value:
        if self.integer:  # each value has a cell of width `step` above it
            return self._cast(self._between(self.first, self.last + (self.step or 1), u, _floor))
        return self._cast(self._between(self.first, self.last, u, round))

    def extremes(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys((self._cast(self.first), self._cast(self.last))))

    def _between(self, low: float, high: float, u: float, snap: Callable[[float], int]) -> float:
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
        return _decimal(value) if self.q is not None else float(value)

    def __str__(self) -> str:
        arguments = [self.lower, self.upper, *([] if self.q is None else [self.q])]
        return f"{self.name}({', '.join(map(_number, arguments))})"


@dataclass(frozen=True, slots=True)
class Normal(Domain):
    """Normally distributed numbers, rounded to multiples of `q` where it is given."""

    mean: float = 0.0
    sd: float = 1.0
    q: float | None = None

    def __post_init__(self) -> None:
        _check_numbers("randn", self.mean, self.sd, self.q)
        if self.sd <= 0:
            raise FaultsError(Fault("", "randn: sd must be above 0", self.sd))
        if self.q is not None and self.q <= 0:
            raise FaultsError(Fault("", "qrandn: q must be above 0", self.q))

    @property
    def size(self) -> int | None:
        return None

    def at(self, u: float) -> Value:
        # unbounded: the extremes are cut at one in ten thousand on each side
        value = NormalDist(self.mean, self.sd).inv_cdf(min(max(u, 1e-4), 1 - 1e-4))
        return value if self.q is None else _decimal(round(value / self.q) * self.q)

    def extremes(self) -> tuple[Value, ...]:
        return (self.at(0.5),)

    def __str__(self) -> str:
        arguments = [self.mean, self.sd, *([] if self.q is None else [self.q])]
        return f"{'randn' if self.q is None else 'qrandn'}({', '.join(map(_number, arguments))})"


@dataclass(frozen=True, slots=True)
class Choice(Domain):
    """One of `values`. A value that is a mapping is a space of its own: a conditional branch.

    `grid` only keeps how it was written: `grid_search([...])` is a choice for every strategy.
    """

    values: tuple[Value, ...]
    grid: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise FaultsError(Fault("", f"{self.name} needs at least one value, got []"))

    @property
    def name(self) -> str:
        return "grid_search" if self.grid else "choice"

    @property
    def size(self) -> int | None:
        sizes = [space_size(v) if isinstance(v, Mapping) else 1 for v in self.values]
        return None if None in sizes else sum(s for s in sizes if s is not None)

    def at(self, u: float) -> Value:
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def extremes(self) -> tuple[Value, ...]:
        return self.values

    def __str__(self) -> str:
        return f"{self.name}({literal(list(self.values))})"


Space = Mapping[str, Value]  # name -> Domain, constant, or a mapping of them


def space_text(space: Space) -> dict[str, Value]:
    """The space as plain values with each domain as its text: the inverse of `parse_space`."""
    return {
        key: str(v) if isinstance(v, Domain) else space_text(v) if isinstance(v, Mapping) else v
        for key, v in space.items()
    }


def resolve(space: Space, draw: Callable[[str, Domain], Value], path: str = "") -> dict[str, Value]:
    """A config of `space`: every domain replaced by what `draw(dotted path, domain)` gives.

    A choice that gives a mapping is a branch and is resolved in turn.
    """
    config: dict[str, Value] = {}
    for key, value in space.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Domain):
            value = draw(here, value)
        config[key] = resolve(value, draw, here) if isinstance(value, Mapping) else value
    return config


def space_size(space: Space) -> int | None:
    """How many different configs there are; None where a domain is continuous."""
    total = 1
    for value in space.values():
        if isinstance(value, Mapping):
            size = space_size(value)
        else:
            size = value.size if isinstance(value, Domain) else 1
        if size is None:
            return None
        total *= size
    return total


def domains_of(space: Space, path: str = "") -> Iterator[tuple[str, Domain]]:
    """Every (dotted path, domain) of `space`, those inside branches too, in declared order."""
    for key, value in space.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from domains_of(value, here)
        elif isinstance(value, Domain):
            yield here, value
            if isinstance(value, Choice):
                for branch in value.values:
                    if isinstance(branch, Mapping):
                        yield from domains_of(branch, here)


def names_of(space: Space) -> list[str]:
    """The dotted path of every domain, and every name of `space` itself, constants too."""
    return [*(path for path, _ in domains_of(space)), *space]


def literal(value: Value) -> str:
    """`value` as text that `parse_domain` reads back; raises FaultsError where it is not plain."""
    match value:
        case Domain():
            return str(value)
        case bool() | None | str():
            return repr(value)
        case int() | float() if abs(value) <= _LARGEST:
            return _number(value)
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{k!r}: {literal(v)}' for k, v in value.items())}}}"
    raise FaultsError(Fault("", "must be plain: number, text, bool, None, list or mapping", value))


def _check_numbers(name: str, *numbers: float | None) -> None:
    """Raise FaultsError for one whose size no float, or no calculation with it, could hold."""
    for number in numbers:
        if number is not None and not abs(number) <= _LARGEST:
            raise FaultsError(
                Fault("", f"{name} takes finite numbers, at most {_LARGEST:g}", number)
            )


def _number(value: float) -> str:
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def _decimal(value: float) -> float:
    """What a product with a step is meant to be: 3 * 0.1 is 0.30000000000000004 without it."""
    return float(f"{value:.12g}")


def _ceil(x: float) -> int:
    return round(x) if math.isclose(x, round(x), rel_tol=1e-9) else math.ceil(x)


def _floor(x: float) -> int:
    return round(x) if math.isclose(x, round(x), rel_tol=1e-9) else math.floor(x)
