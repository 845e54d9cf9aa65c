"""Configs that are allowed and new."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.search.searchers._sampling import random_config, sobol_point, untried_config
from tuner.settings_base import FaultsError
from tuner.space.constraints import Constraints
from tuner.space.encoding import Encoding
from tuner.space.parsing import parse_space
from tuner.space.spaces import config_key

FREE = Constraints()
FEW = Encoding(parse_space({"x": "choice([1, 2, 3])"}))
MANY = Encoding(parse_space({"x": "uniform(0, 1)"}))


def test_sobol_points_are_spread_and_are_the_seeds_own() -> None:
    eighths = {int(8 * sobol_point(MANY, 0, number)[0]) for number in range(8)}
    assert eighths == set(range(8))
    assert len({sobol_point(MANY, seed, 0)[0] for seed in range(3)}) == 3


def test_a_point_gives_its_config_unless_that_is_known_or_forbidden() -> None:
    point = np.array([0.5])
    assert untried_config(point, FEW, FREE, set()) == {"x": 2}
    assert untried_config(point, FEW, FREE, {config_key({"x": 2})}) is None
    assert untried_config(point, FEW, Constraints(["x == 2"]), set()) is None


def test_the_last_config_that_is_left_is_found_and_then_none() -> None:
    rng, tried = np.random.default_rng(0), {config_key({"x": 1})}
    assert random_config(FEW, Constraints(["x == 2"]), tried, rng) == {"x": 3}
    tried.add(config_key({"x": 3}))
    assert random_config(FEW, Constraints(["x == 2"]), tried, rng) is None


def test_what_is_allowed_and_cannot_be_found_is_a_fault_of_the_rules() -> None:
    with pytest.raises(
        FaultsError, match="forbid: leaves nothing that 1000 random draws could find"
    ):
        random_config(MANY, Constraints(["x >= 0"]), set(), np.random.default_rng(0))
