"""Configs as points of the unit cube, and back: what every model-based searcher works on.

Each domain of a space, those inside branches too, is one column; its coordinate is the quantile
that `Domain.at` takes. A column that a config does not have (it lies in another branch) is NaN.
"""

# N points, D columns

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.errors import Fault
from tuner.settings_base import FaultsError
from tuner.space.domains import Choice, Domain, Normal, Numeric, Space, Value

Array = NDArray[np.float64]

_MOST_CELLS = 4096  # a domain of more values is as good as continuous
_INACTIVE = 0.5


@dataclass(frozen=True, slots=True)
class Column:
    """One domain of the space.

    path: dotted. parent: the column of the choice whose branch number `branch` it lies in; -1:
    none. centres_C: the coordinate of each of its values, ascending; None where it is continuous.
    """

    path: str
    domain: Domain
    parent: int
    branch: int
    centres_C: Array | None

    @property
    def categories(self) -> int:
        """The number of values that have no order; 0 for numbers, and for choices of numbers."""
        if not isinstance(self.domain, Choice) or _ordered(self.domain):
            return 0
        return len(self.domain.values)


class Encoding:
    """The columns of `space`, and the way between configs and points."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.columns: list[Column] = []
        self._index: dict[tuple[int, int, str], int] = {}  # (parent, branch, path) -> column
        self._collect(space, "", -1, 0)

    def __len__(self) -> int:
        return len(self.columns)

    def encode(self, config: Mapping[str, Value]) -> Array:
        """The point of `config`. Raises FaultsError naming each value that the space does not have."""
        u_D = np.full(len(self), np.nan)
        faults = self._encode(self.space, config, "", (-1, 0), u_D)
        if faults:
            raise FaultsError(*faults)
        return u_D

    def decode(self, u_D: Sequence[float] | Array) -> dict[str, Value]:
        """The config at a point; coordinates of inactive columns are not looked at."""
        return self._decode(self.space, "", (-1, 0), u_D)

    def complete(self, partial: Mapping[str, Value], u_D: Array) -> dict[str, Value]:
        """`partial` with what it lacks taken from the point. Raises FaultsError for foreign values."""
        given_D = np.full(len(self), np.nan)
        faults = [
            f for f in self._encode(self.space, partial, "", (-1, 0), given_D) if f.rule != _MISSING
        ]
        if faults:
            raise FaultsError(*faults)
        config = self.decode(np.where(np.isnan(given_D), u_D, given_D))
        return _with_given(config, partial)  # as they were written: exp(log(0.01)) is not 0.01

    def snap(self, u_ND: Array) -> Array:
        """Each coordinate moved to the centre of its value's cell, NaN where it is inactive."""
        snapped_ND = np.clip(np.where(np.isnan(u_ND), _INACTIVE, u_ND), 0.0, 1.0)
        for d, column in enumerate(self.columns):  # parents come before their children
            if column.centres_C is not None:
                snapped_ND[:, d] = column.centres_C[self.cells(d, snapped_ND[:, d])]
            if column.parent >= 0:
                chosen_N = self.cells(column.parent, snapped_ND[:, column.parent])
                active_N = ~np.isnan(snapped_ND[:, column.parent]) & (chosen_N == column.branch)
                snapped_ND[~active_N, d] = np.nan
        return snapped_ND

    def cells(self, d: int, u_N: Array) -> NDArray[np.int64]:
        """The number of the value that column `d` has at each coordinate; 0 for NaN."""
        centres_C = self.columns[d].centres_C
        assert centres_C is not None
        u_N = np.nan_to_num(u_N)
        if isinstance(self.columns[d].domain, Choice):
            count = len(centres_C)
            return np.minimum((u_N * count).astype(np.int64), count - 1)
        return np.searchsorted((centres_C[1:] + centres_C[:-1]) / 2, u_N).astype(np.int64)

    def _collect(self, space: Space, path: str, parent: int, branch: int) -> None:
        for key, value in space.items():
            here = f"{path}.{key}" if path else key
            if isinstance(value, Mapping):
                self._collect(value, here, parent, branch)
            if not isinstance(value, Domain):
                continue
            index = len(self.columns)
            self._index[parent, branch, here] = index
            self.columns.append(Column(here, value, parent, branch, _centres(value)))
            for number, option in enumerate(value.values if isinstance(value, Choice) else ()):
                if isinstance(option, Mapping):
                    self._collect(option, here, index, number)

    def _encode(
        self,
        space: Space,
        config: Mapping[str, Value],
        path: str,
        place: tuple[int, int],
        u_D: Array,
    ) -> list[Fault]:
        faults = []
        for key in config:
            if key not in space:
                here = f"{path}.{key}" if path else key
                faults.append(Fault(here, "is not in the search space", config[key], tuple(space)))
        for key, value in space.items():
            here = f"{path}.{key}" if path else key
            if key not in config:
                faults += [Fault(here, _MISSING)] if isinstance(value, Domain | Mapping) else []
            elif isinstance(value, Mapping):
                inner = config[key]
                if isinstance(inner, Mapping):
                    faults += self._encode(value, inner, here, place, u_D)
                else:
                    faults.append(Fault(here, "must be a mapping", inner))
            elif isinstance(value, Domain):
                faults += self._encode_value(value, config[key], here, place, u_D)
        return faults

    def _encode_value(
        self, domain: Domain, value: Value, path: str, place: tuple[int, int], u_D: Array
    ) -> list[Fault]:
        index = self._index[(*place, path)]
        if isinstance(domain, Choice):
            return self._encode_choice(domain, value, path, index, u_D)
        u = quantile(domain, value)
        if u is None:
            return [Fault(path, f"must lie in {domain}", value)]
        u_D[index] = u
        return []

    def _encode_choice(
        self, choice: Choice, value: Value, path: str, index: int, u_D: Array
    ) -> list[Fault]:
        fewest: list[Fault] | None = None
        for number, option in enumerate(choice.values):
            trial_D = np.full_like(u_D, np.nan)
            if isinstance(option, Mapping) and isinstance(value, Mapping):
                faults = self._encode(option, value, path, (index, number), trial_D)
                differs = [k for k in option if k in value and not _fits(option[k], value[k])]
                if differs:
                    continue
            elif not isinstance(option, Mapping) and _same(option, value):
                faults = []
            else:
                continue
            if fewest is None or len(faults) < len(fewest):
                fewest = faults
                trial_D[index] = (number + 0.5) / len(choice.values)
                best_D = trial_D
        if fewest is None:
            return [Fault(path, f"must be one of {choice}", value)]
        u_D[~np.isnan(best_D)] = best_D[~np.isnan(best_D)]
        return fewest

    def _decode(
        self, space: Space, path: str, place: tuple[int, int], u_D: Sequence[float] | Array
    ) -> dict[str, Value]:
        config: dict[str, Value] = {}
        for key, value in space.items():
            here = f"{path}.{key}" if path else key
            if isinstance(value, Domain):
                index = self._index[(*place, here)]
                u = float(u_D[index])
                inner = (index, _number(value, u)) if isinstance(value, Choice) else place
                value = value.at(_INACTIVE if math.isnan(u) else u)
            else:
                inner = place
            nested = isinstance(value, Mapping)
            config[key] = self._decode(value, here, inner, u_D) if nested else value
        return config


_MISSING = "is missing"


def quantile(domain: Domain, value: Value) -> float | None:
    """A u with `domain.at(u) == value`, in the middle of the value's cell; None: not in it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if isinstance(domain, Normal):
        # `at` cuts the tails off at these quantiles
        return min(max(NormalDist(domain.mean, domain.sd).cdf(value), 1e-4), 1 - 1e-4)
    assert isinstance(domain, Numeric)
    low, high, step = domain.first, domain.last, domain.step
    slack = 1e-9 * max(abs(low), abs(high), 1e-300)
    if not low - slack <= value <= high + slack:
        return None
    if step is not None and abs(value - round(value / step) * step) > 1e-6 * step:
        return None
    if low == high:
        return 0.5
    value = min(max(value, low), high)
    if not domain.integer:
        return _position(value, low, high, domain.log)
    assert step is not None
    below = _position(value, low, high + step, domain.log)
    above = _position(value + step, low, high + step, domain.log)
    return (below + above) / 2


def config_key(config: Mapping[str, Value]) -> str:
    """Text that is the same for the same config."""
    return json.dumps(config, sort_keys=True, default=str)


def _with_given(config: dict[str, Value], given: Mapping[str, Value]) -> dict[str, Value]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            value = _with_given(config[key], value)
        config[key] = float(value) if isinstance(config[key], float) else value
    return config


def _position(value: float, low: float, high: float, log: bool) -> float:
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5


def _centres(domain: Domain) -> Array | None:
    if isinstance(domain, Choice):
        count = len(domain.values)
        return (np.arange(count) + 0.5) / count
    size = domain.size
    if not isinstance(domain, Numeric) or size is None or size > _MOST_CELLS:
        return None
    values = (domain.first + i * (domain.step or 0) for i in range(size))
    centres = [quantile(domain, value) for value in values]
    return np.array([0.5 if c is None else c for c in centres])


def _number(choice: Choice, u: float) -> int:
    count = len(choice.values)
    return min(int((_INACTIVE if math.isnan(u) else u) * count), count - 1)


def _ordered(choice: Choice) -> bool:
    """Whether the values are numbers in order, at least three, as in choice([16, 32, 64])."""
    values = choice.values
    if len(values) < 3 or not all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values
    ):
        return False
    steps = np.diff(np.array(values, dtype=float))
    return bool((steps > 0).all() or (steps < 0).all())


def _fits(option: Value, value: Value) -> bool:
    """Whether a constant of a branch has this value; a domain may have any."""
    if isinstance(option, Domain | Mapping):
        return True
    return _same(option, value)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) is not isinstance(b, bool):
        return False  # True == 1
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
