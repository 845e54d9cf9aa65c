"""Configs at the edges of a search space, where settings that cannot work show before a search."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import NamedTuple

from tuner.spec.space.constraints import is_allowed
from tuner.spec.space.domains import Domain, Space, Value
from tuner.spec.space.spaces import config_at

_MOST_PAIRS = 1000
_MOST_DRAWS = 100  # for values that a forbidding expression allows beside given ones

Config = dict[str, Value]


class Pair(NamedTuple):
    """An allowed config, and the two values of it that are chosen together."""

    config: Config
    values: Config


def list_extreme_configs(space: Space, forbid: Sequence[str] = ()) -> list[Config]:
    """Configs in which each domain has each of its extremes, and the others their first.

    Where `forbid` excludes such a config, the others have values that it allows. An extreme for
    which 100 draws find none is left out, but there is one config at least.

    >>> list_extreme_configs({"lr": Numeric(1, 5, integer=True), "k": Choice((8, 9))})
    [{'lr': 1, 'k': 8}, {'lr': 4, 'k': 8}, {'lr': 1, 'k': 9}]
    """
    extremes = {name: _list_extremes(value) for name, value in space.items()}
    first = {name: values[0] for name, values in extremes.items()}
    others = 1 if is_allowed(forbid, first) else 0
    chosen: list[Config] = [
        {name: value} for name, values in extremes.items() for value in values[others:]
    ]
    completed = _complete_configs(space, first, [{}, *chosen], forbid)
    return [config for config, _ in completed] or [first]


def list_paired_configs(
    space: Space, names: Iterable[str], forbid: Sequence[str]
) -> Iterator[Pair]:
    """Configs in which each two of `names` have each two extremes, without the first of either.

    At most 1,000, with the others as in `list_extreme_configs`.
    """
    extremes = {name: _list_extremes(value) for name, value in space.items()}
    first = {name: values[0] for name, values in extremes.items()}
    chosen: Iterator[Config] = (
        {one: value, other: beside}
        for one, other in combinations(names, 2)
        for value, beside in product(extremes[one][1:], extremes[other][1:])
    )
    return _complete_configs(space, first, islice(chosen, _MOST_PAIRS), forbid)


def _complete_configs(
    space: Space, first: Config, chosen: Iterable[Config], forbid: Sequence[str]
) -> Iterator[Pair]:
    """An allowed config with each of the `chosen` values, where one is found."""
    draw = random.Random(0).random
    for values in chosen:
        config = {**first, **values}
        for _ in range(_MOST_DRAWS):
            if is_allowed(forbid, config):
                yield Pair(config, values)
                break
            config = {**config_at(space, lambda _: draw()), **values}


def _list_extremes(value: Value) -> list[Value]:
    if isinstance(value, Domain):
        return [
            inner
            for extreme in value.list_extremes()
            for inner in _list_extremes(extreme)
        ]
    return (
        list(list_extreme_configs(value))
        if isinstance(value, Mapping) and value
        else [value]
    )
