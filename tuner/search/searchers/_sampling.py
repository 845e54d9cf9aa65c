"""Configs that are allowed and were not tried yet: at a point, or drawn at random."""

# D columns of the encoding

from __future__ import annotations

from collections.abc import Set

import numpy as np
from scipy.stats import qmc

from tuner.errors import Fault
from tuner.settings_base import FaultsError
from tuner.space.constraints import Constraints
from tuner.space.domains import Value
from tuner.space.encoding import Array, Encoding
from tuner.space.grid import MAX_LISTED, configs_left, space_size
from tuner.space.spaces import config_key

_DRAWS = 1000  # that may be forbidden or tried before the configs that are left are listed


def sobol_point(encoding: Encoding, seed: int, number: int) -> Array:
    """Point `number` of the seed's own Sobol sequence."""
    if len(encoding) == 0:
        return np.empty(0)
    sequence = qmc.Sobol(len(encoding), rng=np.random.default_rng((seed, 0)))
    if number:  # it cannot go forward by nothing
        sequence.fast_forward(number)
    return np.asarray(sequence.random(1)[0])


def untried_config(
    u_D: Array, encoding: Encoding, constraints: Constraints, tried: Set[str]
) -> dict[str, Value] | None:
    """The config at a point, where it is allowed and none of those `tried`."""
    config = encoding.decode(u_D)
    return config if config_key(config) not in tried and constraints.allow(config) else None


def random_config(
    encoding: Encoding, constraints: Constraints, tried: Set[str], rng: np.random.Generator
) -> dict[str, Value] | None:
    """An untried config drawn at random; None where none is left.

    Raises FaultsError where what is allowed is too little to be found.
    """
    for _ in range(_DRAWS):
        config = untried_config(rng.random(len(encoding)), encoding, constraints, tried)
        if config is not None:
            return config
    size = space_size(encoding.space)
    if size is None or size > MAX_LISTED:
        rule = f"leaves nothing that {_DRAWS} random draws could find"
        raise FaultsError(Fault("forbid", rule))
    left = configs_left(encoding.space, constraints, tried)
    return left[int(rng.integers(len(left)))] if left else None
