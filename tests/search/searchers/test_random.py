"""Random search: a config depends on its number, the seed and the space alone."""

import json

from tuner.search.searchers.random import RandomSettings
from tuner.testing import searcher_contract
from tuner.testing.searcher_contract import SearcherContract

SPACE = {"lr": "loguniform(1e-4, 1)", "b": "choice([1, {'x': uniform(0, 1)}])", "k": 3}


class TestRandom(SearcherContract):
    def make(self, space=searcher_contract.SPACE, *, seed=0, **settings):
        return RandomSettings(space=space, **settings).build(seed)


def test_random_config_does_not_depend_on_earlier_ones():
    forwards, backwards = (RandomSettings(space=SPACE).build(0) for _ in range(2))
    numbers = [f"{i:05d}" for i in range(20)]
    first = {n: forwards.suggest(n) for n in numbers}
    assert {n: backwards.suggest(n) for n in reversed(numbers)} == first
    assert len({json.dumps(c) for c in first.values()}) == 20
