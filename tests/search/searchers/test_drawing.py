"""Configs drawn at random for a search whose model has none."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.errors import SpecError
from tuner.search.searchers._drawing import draw_untried
from tuner.spec.space.constraints import Constraints
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import config_key


def test_a_rare_config_of_a_large_space_is_found_or_the_rules_are_at_fault() -> None:
    encoding, rng = Encoding(parse_space({"x": "uniform(0, 1)"})), np.random.default_rng(0)
    found = draw_untried(encoding, Constraints(["x > 0.001"]), set(), rng)
    assert found is not None
    assert found["x"] <= 0.001
    with pytest.raises(SpecError, match="forbid: leaves nothing that 10000 random draws could"):
        draw_untried(encoding, Constraints(["x >= 0"]), set(), rng)


def test_the_last_configs_of_a_small_space_are_listed() -> None:
    encoding, rng = Encoding(parse_space({"n": "lograndint(1, 5000)"})), np.random.default_rng(0)
    tried = {config_key({"n": n}) for n in range(1, 4999)}
    assert draw_untried(encoding, Constraints(), tried, rng) == {"n": 4999}
    assert draw_untried(encoding, Constraints(["n == 4999"]), tried, rng) is None
