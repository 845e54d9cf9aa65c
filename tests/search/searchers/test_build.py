"""Every strategy of the spec has its searcher."""

import pytest
from ray.tune.search import Searcher

from tuner.search.searchers.build import build_searcher
from tuner.spec.experiment import STRATEGIES, build_spec


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_by_its_name(strategy):
    space = {"lr": "loguniform(1e-3, 1)"}
    spec = build_spec({"search": {"strategy": strategy, "space": space}, "num_samples": 2})
    searcher = build_searcher(spec.search, seed=1)
    assert isinstance(searcher, Searcher)
