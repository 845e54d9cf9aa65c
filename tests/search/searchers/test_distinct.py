"""Configs by their number: each once where the space is finite, and none that is forbidden."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from ray.tune.search import Searcher

from tuner.errors import SpecError
from tuner.search.searchers import distinct_searcher
from tuner.search.searchers.random import RandomSettings


def random_search(space: dict[str, object], forbid: Sequence[str] = ()) -> Searcher:
    return RandomSettings(space=space, forbid=forbid).build(0)


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


def test_what_comes_first_is_tried_and_a_repeat_or_what_is_forbidden_is_drawn_instead() -> None:
    settings = RandomSettings(space={"n": "randint(0, 9)"}, forbid=["n == 8"])
    search = distinct_searcher(settings, 0, lambda number: {"n": (3, 3, 8)[number]})
    first, second, third = (search.suggest(str(number))["n"] for number in range(3))
    assert first == 3
    assert len({first, second, third, 8}) == 4
    assert search.origin("0") == "random"
