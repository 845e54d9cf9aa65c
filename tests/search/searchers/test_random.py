"""Random search: a config depends on its number, the seed and the space alone."""

import json

from fresh import ran

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


def test_random_search_leaves_out_forbidden_and_repeated_points():
    space = {"a": "uniform(0, 1)", "b": "choice([4, 5])"}
    points = [
        {"a": 0.5, "b": 5},
        {"a": 0.9, "b": 4},
        {"a": 0.5, "b": 5},
        {"a": 0.25, "b": 4},
    ]
    settings = RandomSettings(
        space=space, points_to_evaluate=points, forbid=["a > 0.8"]
    )
    search = settings.build(0)
    configs = [search.suggest(f"{number:05}") for number in range(20)]
    assert configs[:2] == [points[0], points[3]]
    assert all(config["a"] <= 0.8 for config in configs)
    assert len({json.dumps(config) for config in configs}) == 20
    assert (search.origin("00001"), search.origin("00002")) == ("initial", "random")
    search.skip([points[0]])
    assert search.suggest("00000") == points[3]


def test_random_search_of_complete_points_imports_no_slow_part_of_scipy():
    code = """
        from experiments.digits import DIGITS_CNN, experiment
        from tuner.spec.validation import validate
        search = {"strategy": "random", "space": DIGITS_CNN}
        spec = validate(experiment().replace(search=search))
        assert spec.search.points_to_evaluate
        spec.search.build(0, objective=spec.objective, max_t=10)
    """
    assert not {"scipy.stats", "scipy.optimize"} & ran(code).modules
