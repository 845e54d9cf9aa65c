"""Random search: a config depends on its number, the seed and the space alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ray.tune.search import Searcher

from tuner.errors import SpecError
from tuner.search.searchers.random import RandomSettings
from tuner.testing import searcher_contract
from tuner.testing.searcher_contract import SearcherContract

SPACE = {"lr": "loguniform(1e-4, 1)", "b": "choice([1, {'x': uniform(0, 1)}])", "k": 3}


def random_search(space: dict[str, object], seed: int = 0, forbid: Sequence[str] = ()) -> Searcher:
    return RandomSettings(space=space, forbid=forbid).build(seed)


class TestRandom(SearcherContract):
    def make(
        self, space: Any = searcher_contract.SPACE, *, seed: int = 0, **settings: Any
    ) -> Searcher:
        return RandomSettings(space=space, **settings).build(seed)


def test_a_random_config_does_not_depend_on_what_came_before() -> None:
    forwards = random_search(SPACE)
    backwards = random_search(SPACE)
    numbers = [f"{i:05d}" for i in range(20)]
    first = {n: forwards.suggest(n) for n in numbers}
    assert {n: backwards.suggest(n) for n in reversed(numbers)} == first
    assert len({json.dumps(c) for c in first.values()}) == 20


@pytest.mark.parametrize("backwards", [False, True])
def test_a_finite_space_is_drawn_without_repeats_until_it_is_used_up(backwards: bool) -> None:
    space = {"a": "choice([1, 2, 3])", "b": "choice(['x', {'n': randint(0, 2)}])"}
    search = random_search(space)
    order = range(9, -1, -1) if backwards else range(10)
    configs = {i: search.suggest(str(i)) for i in order}
    assert configs[9] == Searcher.FINISHED
    assert len({json.dumps(configs[i]) for i in range(9)}) == 9


def test_a_space_too_large_to_be_listed_is_not() -> None:
    space = {"a": "randint(0, 1000000000000)"}
    drawn = random_search(space, forbid=["a < 500000000000"])
    assert all(drawn.suggest(str(i))["a"] >= 5 * 10**11 for i in range(20))
    nothing = random_search(space, forbid=["a >= 0"])
    with pytest.raises(SpecError, match="forbid: leaves nothing that 10000 random draws could"):
        nothing.suggest("0")


def test_rare_configs_of_a_finite_space_are_found_too() -> None:
    search = random_search({"n": "lograndint(1, 200)"})
    assert sorted(search.suggest(str(i))["n"] for i in range(199)) == list(range(1, 200))
