"""What grid and random search share: configs by number, and nothing that is learned."""

import json

import pytest
from ray.tune.search import Searcher

from tuner.errors import SpecError
from tuner.search.searchers import distinct_searcher
from tuner.search.searchers._numbered import NumberedSearch
from tuner.search.searchers.random import RandomSettings
from tuner.spec.strategies import SEARCHERS

SPACE = {"lr": "loguniform(1e-4, 1)", "b": "choice([1, {'x': uniform(0, 1)}])", "k": 3}
FINITE = {"a": "choice([1, 2, 3, 4, 5])", "b": "randint(0, 3)"}


def numbered(strategy, space, **settings):
    return SEARCHERS.load_settings(strategy)(space=space, **settings).build(0)


def suggestions(search, numbers):
    return [search.suggest(str(number)) for number in numbers]


def test_pass_over_does_not_count_trials():
    search = NumberedSearch("grid", lambda number: {"number": number}, seeds=(7, 8))
    assert search.suggest("00001") == {"number": 0}
    search.pass_over("00002")
    assert (search.suggest("00001"), search.seed_of("00001")) == ({"number": 0}, 8)
    assert (search.suggest("00003"), search.seed_of("00003")) == ({"number": 1}, 7)
    assert search.suggest("00005") == {"number": 2}


@pytest.mark.parametrize(
    ("strategy", "space"), [("random", SPACE), ("random", FINITE), ("grid", FINITE)]
)
def test_skip_leaves_configs_out_and_keeps_the_order_of_others(strategy, space):
    configs = suggestions(numbered(strategy, space), range(12))
    search = numbered(strategy, space)
    late = numbered(strategy, space)
    search.skip([configs[0], configs[3], configs[4], {"strange": 1}])
    assert suggestions(search, range(9)) == [*configs[1:3], *configs[5:]]
    late.skip([configs[0], configs[3], configs[4]])
    # In any order of numbers, as after a resume
    assert late.suggest("8") == configs[11]


def test_finite_space_is_drawn_without_repeats_in_any_order_of_numbers():
    space = {"a": "choice([1, 2, 3])", "b": "choice(['x', {'n': randint(0, 2)}])"}
    last, *configs = suggestions(numbered("random", space), range(9, -1, -1))
    assert last == Searcher.FINISHED
    assert len({json.dumps(config) for config in configs}) == 9


def test_large_finite_space_is_not_listed(snapshot):
    space = {"a": "randint(0, 1000000000000)"}
    drawn = numbered("random", space, forbid=["a < 500000000000"])
    assert all(config["a"] >= 5 * 10**11 for config in suggestions(drawn, range(20)))
    with snapshot.raises(SpecError):
        numbered("random", space, forbid=["a >= 0"]).suggest("0")


def test_distinct_searcher_draws_in_place_of_repeated_and_forbidden_configs():
    settings = RandomSettings(space={"n": "randint(0, 9)"}, forbid=["n == 8"])
    search = distinct_searcher(settings, 0, lambda number: {"n": (3, 3, 8)[number]})
    first, second, third = (config["n"] for config in suggestions(search, range(3)))
    assert first == 3
    assert len({first, second, third, 8}) == 4
    assert search.origin("0") == "random"


def test_begin_with_gives_each_config_of_a_finite_space_once():
    search = numbered("random", FINITE, forbid=["a == 1"])
    search.skip([{"a": 5, "b": 2}])
    search.queue_configs([{"a": 3, "b": 1}, {"a": 5, "b": 2}, {"a": 2, "b": 0}])
    configs = suggestions(search, range(11))
    assert configs[:2] == [{"a": 3, "b": 1}, {"a": 2, "b": 0}]
    assert len({json.dumps(config) for config in configs}) == 11
    assert {"a": 5, "b": 2} not in configs
    assert search.suggest("11") == Searcher.FINISHED
    assert [search.origin(number) for number in ("1", "2")] == ["initial", "random"]
    configs[0]["a"] = 4  # a trial may change its config
    assert search.suggest("0") == {"a": 3, "b": 1}
