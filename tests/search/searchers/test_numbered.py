"""What grid and random search share: configs by number, and nothing that is learned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ray.tune.search import Searcher

from tuner.errors import SpecError
from tuner.search.searchers import distinct_searcher
from tuner.search.searchers._numbered import NumberedSearch
from tuner.search.searchers.random import RandomSettings
from tuner.spec.strategies import SEARCHERS

SPACE = {"lr": "loguniform(1e-4, 1)", "b": "choice([1, {'x': uniform(0, 1)}])", "k": 3}


def numbered(strategy: str, space: dict[str, object], **settings: Any) -> NumberedSearch:
    settings |= {"space": space}
    searcher = SEARCHERS.settings(strategy).model_validate(settings).build(0)
    assert isinstance(searcher, NumberedSearch)
    return searcher


def test_forbidden_configs_are_left_out() -> None:
    grid = numbered("grid", {"a": "choice([1, 2, 3])"}, forbid=["a == 2"])
    assert [grid.suggest(str(i)) for i in range(3)] == [{"a": 1}, {"a": 3}, Searcher.FINISHED]
    finite = numbered("random", {"a": "choice([1, 2, 3])"}, forbid=["a == 2"])
    assert sorted(finite.suggest(str(i))["a"] for i in range(2)) == [1, 3]
    assert finite.suggest("2") == Searcher.FINISHED
    wide = numbered("random", SPACE, forbid=["lr > 0.01"])
    assert all(wide.suggest(str(i))["lr"] <= 0.01 for i in range(50))
    assert (grid.origin("0"), wide.origin("0")) == ("grid", "random")


def test_neither_reports_nor_rays_snapshots_change_what_is_suggested(tmp_path: Path) -> None:
    search = numbered("random", SPACE)
    config = search.suggest("00003")
    search.on_trial_complete("00003", {"loss": 1.0})
    search.save(str(tmp_path / "state"))
    search.restore(str(tmp_path / "state"))
    assert search.suggest("00003") == config
    assert search.seed_of("00003") is None


def test_trials_that_are_passed_over_are_not_counted() -> None:
    search = NumberedSearch("grid", lambda number: {"number": number}, seeds=(7, 8))
    assert search.suggest("00001") == {"number": 0}
    search.pass_over("00002")
    assert (search.suggest("00001"), search.seed_of("00001")) == ({"number": 0}, 8)
    assert (search.suggest("00003"), search.seed_of("00003")) == ({"number": 1}, 7)
    assert search.suggest("00005") == {"number": 2}


@pytest.mark.parametrize(
    ("strategy", "space"),
    [
        ("random", SPACE),
        ("random", {"a": "choice([1, 2, 3, 4, 5])", "b": "randint(0, 3)"}),
        ("grid", {"a": "choice([1, 2, 3, 4, 5])", "b": "randint(0, 3)"}),
    ],
)
def test_what_is_skipped_is_left_out_and_the_rest_keeps_its_order(
    strategy: str, space: dict[str, object]
) -> None:
    whole = [numbered(strategy, space).suggest(str(i)) for i in range(12)]
    rest = numbered(strategy, space)
    rest.skip([whole[0], whole[3], whole[4], {"strange": 1}])
    assert [rest.suggest(str(i)) for i in range(9)] == [*whole[1:3], *whole[5:]]
    late = numbered(strategy, space)
    late.skip([whole[0], whole[3], whole[4]])
    assert late.suggest("8") == whole[11]  # whichever is asked for first, as after a resume


def test_all_that_is_skipped_leaves_nothing() -> None:
    search = numbered("grid", {"a": "choice([1, 2])"})
    search.skip([{"a": 1}, {"a": 2}])
    assert search.suggest("0") == Searcher.FINISHED


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
