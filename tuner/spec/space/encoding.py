"""Configs as points of the unit cube, and back, for model-based searchers.

Each domain is a column, with the quantile of `Domain.compute_value`; NaN in another branch.
"""

# N points, D columns

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.errors import Fault, build_unknown_fault
from tuner.spec.plain_values import is_number
from tuner.spec.settings import FaultsError
from tuner.spec.space.constraints import is_allowed
from tuner.spec.space.domains import Choice, Domain, Numeric, Space, Value
from tuner.spec.space.spaces import (
    ROOT,
    Position,
    config_at,
    has_value,
    is_same,
    quantile,
    walk,
)

Array = NDArray[np.float64]

_MAX_CELLS = 4096  # a domain of more values is as good as continuous
_INACTIVE = 0.5
_MISSING = "is missing"


@dataclass(frozen=True, slots=True)
class Column:
    """One domain. path: dotted. parent: column of the choice whose `branch` it lies in, or -1.

    centres_C: the coordinates of its values, ascending, or None if continuous.
    """

    path: str
    domain: Domain
    parent: int
    branch: int
    centres_C: Array | None

    @property
    def categories(self) -> int:
        """The number of values that have no order; 0 for numbers, and for choices of numbers."""
        if not isinstance(self.domain, Choice) or _is_ordered(self.domain):
            return 0
        return len(self.domain.values)


class Encoding:
    """The columns of `space`; encodes configs as points and decodes them."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.columns: list[Column] = []
        self._column: dict[Position, int] = {}
        for position, value in walk(space):
            if isinstance(value, Domain):
                parent = (
                    -1 if position.choice is None else self._column[position.choice]
                )
                branch = position.branches[-1][1] if position.branches else 0
                self._column[position] = len(self.columns)
                self.columns.append(
                    Column(
                        position.path,
                        value,
                        parent,
                        branch,
                        _compute_centres(value),
                    )
                )

    def __len__(self) -> int:
        return len(self.columns)

    def find_column(self, position: Position) -> int:
        return self._column[position]

    def encode(self, config: Mapping[str, Value], *, partial: bool = False) -> Array:
        """The point of `config`, with NaN for missing values if `partial`. Raises FaultsError."""
        u_D = np.full(len(self), np.nan)
        faults = self._encode(self.space, config, ROOT, u_D)
        if partial:
            faults = [fault for fault in faults if fault.rule != _MISSING]
        if faults:
            raise FaultsError(*faults)
        return u_D

    def decode(self, u_D: Sequence[float] | Array) -> dict[str, Value]:
        """The config at a point. Coordinates of inactive columns are ignored."""

        def find_quantile(position: Position) -> float:
            u = float(u_D[self._column[position]])
            return _INACTIVE if math.isnan(u) else u

        return config_at(self.space, find_quantile)

    def complete(self, partial: Mapping[str, Value], u_D: Array) -> dict[str, Value]:
        """`partial`, completed from the point. Raises FaultsError for invalid values."""
        partial_D = self.encode(partial, partial=True)
        merged_D = np.where(np.isnan(partial_D), u_D, partial_D)
        config = self.decode(merged_D)
        # The written values: exp(log(0.01)) is not 0.01
        return _update_config(config, partial)

    def snap(self, u_ND: Array) -> Array:
        """Each coordinate moved to the centre of its value's cell, NaN where it is inactive."""
        snapped_ND = np.where(np.isnan(u_ND), _INACTIVE, u_ND)
        snapped_ND = np.clip(snapped_ND, 0.0, 1.0)
        for d, column in enumerate(self.columns):  # parents come before their children
            if column.centres_C is not None:
                snapped_ND[:, d] = column.centres_C[
                    self.find_cells(d, snapped_ND[:, d])
                ]
            if column.parent >= 0:
                parent_N = snapped_ND[:, column.parent]
                chosen_N = self.find_cells(column.parent, parent_N)
                active_N = ~np.isnan(parent_N) & (chosen_N == column.branch)
                snapped_ND[~active_N, d] = np.nan
        return snapped_ND

    def find_cells(self, d: int, u_N: Array) -> NDArray[np.int64]:
        """The number of the value that column `d` has at each coordinate; 0 for NaN."""
        centres_C = self.columns[d].centres_C
        assert centres_C is not None
        u_N = np.nan_to_num(u_N)
        if isinstance(self.columns[d].domain, Choice):
            count = len(centres_C)
            cell_N = (u_N * count).astype(np.int64)
            return np.minimum(cell_N, count - 1)
        return np.searchsorted((centres_C[1:] + centres_C[:-1]) / 2, u_N).astype(
            np.int64
        )

    def _encode(
        self, space: Space, config: Mapping[str, Value], at: Position, u_D: Array
    ) -> list[Fault]:
        """Write the coordinates of `config` into `u_D`; returns what does not fit the space."""
        faults = [
            Fault(
                at.append_name(key).path,
                "is not in the search space",
                config[key],
                tuple(space),
            )
            for key in config
            if key not in space
        ]
        for key, value in space.items():
            here = at.append_name(key)
            if not _is_searched(value):
                continue
            if key not in config:
                faults.append(Fault(here.path, _MISSING))
            elif isinstance(value, Choice):
                faults += self._encode_choice(value, config[key], here, u_D)
            elif isinstance(value, Domain):
                u = quantile(value, config[key])
                if u is None:
                    faults.append(Fault(here.path, f"must lie in {value}", config[key]))
                else:
                    u_D[self._column[here]] = u
            elif isinstance(config[key], Mapping):
                faults += self._encode(value, config[key], here, u_D)
            else:
                faults.append(Fault(here.path, "must be a mapping", config[key]))
        return faults

    def _encode_choice(
        self, choice: Choice, value: Value, at: Position, u_D: Array
    ) -> list[Fault]:
        """Encode `value` as the option that it fits with the fewest faults."""
        fits: list[tuple[list[Fault], Array]] = []
        for number, option in enumerate(choice.values):
            option_D = np.full_like(u_D, np.nan)
            option_D[self._column[at]] = (number + 0.5) / len(choice.values)
            if isinstance(option, Mapping) and isinstance(value, Mapping):
                constants = [name for name in option if not _is_searched(option[name])]
                if all(is_same(option[n], value[n]) for n in constants if n in value):
                    faults = self._encode(
                        option, value, at.append_branch(number), option_D
                    )
                    fits.append((faults, option_D))
            elif is_same(option, value):
                fits.append(([], option_D))
        if not fits:
            return [Fault(at.path, f"must be one of {choice}", value)]
        faults, option_D = min(fits, key=lambda fit: len(fit[0]))
        active_D = ~np.isnan(option_D)
        u_D[active_D] = option_D[active_D]
        return faults


def complete_config(
    space: Space, values: Mapping[str, Value], forbid: Sequence[str] = ()
) -> dict[str, Value]:
    """The config with these values; constants may be left out. Raises FaultsError."""
    encoding = Encoding(space)
    u_D = encoding.encode(values)
    config = encoding.complete(values, u_D)
    constants = (
        (name, space[name]) for name in values if not _is_searched(space[name])
    )
    faults = [
        Fault(name, f"is always {constant!r} here", values[name])
        for name, constant in constants
        if not is_same(constant, values[name])
    ]
    if not is_allowed(forbid, config):
        conditions = "; ".join(forbid)
        faults.append(Fault("", f"the space forbids it: {conditions}"))
    if faults:
        raise FaultsError(*faults)
    return config


def _is_searched(value: Value) -> bool:
    return isinstance(value, Domain | Mapping)


def _update_config(
    config: dict[str, Value], values: Mapping[str, Value]
) -> dict[str, Value]:
    """`config` updated with `values`, as floats where it has floats."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = _update_config(config[key], value)
        if isinstance(config[key], float):
            value = float(value)
        config[key] = value
    return config


def _compute_centres(domain: Domain) -> Array | None:
    if isinstance(domain, Choice):
        count = len(domain.values)
        return (np.arange(count) + 0.5) / count
    size = domain.size
    if not isinstance(domain, Numeric) or size is None or size > _MAX_CELLS:
        return None
    values = (domain.first + i * (domain.step or 0) for i in range(size))
    centres = [quantile(domain, value) for value in values]
    return np.array([0.5 if c is None else c for c in centres])


def _is_ordered(choice: Choice) -> bool:
    """Whether the values are numbers in order, at least three, as in choice([16, 32, 64])."""
    values = choice.values
    if len(values) < 3 or not all(map(is_number, values)):
        return False
    steps = np.diff(np.array(values, dtype=float))
    is_ascending = (steps > 0).all()
    return bool(is_ascending or (steps < 0).all())


def check_superset(old: Space, new: Space, at: Position = ROOT) -> Iterator[Fault]:
    """A fault for each value of `new` that does not contain that of `old`.

    Numbers keep their kind (scale, whole numbers, multiples) and may get wider bounds, a choice
    more options, and a constant a domain that has it. No name is added or left out.
    """
    for name in new.keys() - old.keys():
        yield build_unknown_fault(
            at.append_name(name).path, "hyperparameter of the earlier trials", name, old
        )
    for name, value in old.items():
        path = at.append_name(name).path
        wider = new.get(name)
        if isinstance(value, Mapping) and isinstance(wider, Mapping):
            yield from check_superset(value, wider, at.append_name(name))
        elif name not in new or not _is_superset(wider, value):
            got = f", got {wider}" if name in new else ""
            yield Fault(
                path, f"must contain the earlier {value} and be of its kind{got}"
            )


def _is_superset(new: Value, old: Value) -> bool:
    if isinstance(new, Choice) and isinstance(old, Choice):
        return all(
            any(_is_option_superset(n, o) for n in new.values) for o in old.values
        )
    if isinstance(new, Numeric) and isinstance(old, Numeric):
        old_kind = (old.log, old.integer, old.step)
        same_kind = (new.log, new.integer, new.step) == old_kind
        return same_kind and new.first <= old.first and old.last <= new.last
    if isinstance(new, Domain) and not isinstance(old, Domain):
        return has_value(new, old)
    return is_same(new, old)


def _is_option_superset(new: Value, old: Value) -> bool:
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return not any(check_superset(old, new))
    return is_same(new, old)
