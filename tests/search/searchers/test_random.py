"""Random search: a config depends on its number, the seed and the space alone."""

from __future__ import annotations

import json
from typing import Any

from ray.tune.search import Searcher

from tuner.search.searchers.random import RandomSettings
from tuner.testing import searcher_contract
from tuner.testing.searcher_contract import SearcherContract

SPACE = {"lr": "loguniform(1e-4, 1)", "b": "choice([1, {'x': uniform(0, 1)}])", "k": 3}


class TestRandom(SearcherContract):
    def make(
        self, space: Any = searcher_contract.SPACE, *, seed: int = 0, **settings: Any
    ) -> Searcher:
        return RandomSettings(space=space, **settings).build(seed)


def test_a_random_config_does_not_depend_on_what_came_before() -> None:
    forwards, backwards = (RandomSettings(space=SPACE).build(0) for _ in range(2))
    numbers = [f"{i:05d}" for i in range(20)]
    first = {n: forwards.suggest(n) for n in numbers}
    assert {n: backwards.suggest(n) for n in reversed(numbers)} == first
    assert len({json.dumps(c) for c in first.values()}) == 20
