from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tuner.search.searchers import bayesopt
from tuner.search.searchers.bayesopt import BayesOptSearch
from tuner.testing.searcher_contract import SPACE, SearcherContract, play


class TestBayesOptSearch(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> BayesOptSearch:
        return BayesOptSearch(space, **{"metric": "loss", "mode": "min", **settings})


def test_small_matrices_are_not_shared_out_over_threads(monkeypatch: Any) -> None:
    found: list[int] = []
    maximise = bayesopt.maximise

    def watched(*args: Any) -> Any:
        found.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return maximise(*args)

    monkeypatch.setattr(bayesopt, "maximise", watched)
    with threadpool_limits(2, user_api="blas"):
        play(BayesOptSearch(SPACE, "loss", "min", seed=0), 0, 9)
        after = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
    assert set(found) == {1}
    assert set(after) == {2}


def test_of_too_many_reports_the_best_and_a_spread_of_the_rest_are_kept() -> None:
    losses = [float(i) for i in range(1000)][::-1]
    kept = bayesopt._telling(losses, losses)
    assert len(kept) == 400
    assert sorted(kept)[:200] == [float(i) for i in range(200)]
    assert max(kept) == 999.0
    assert max(np.diff(sorted(kept))) <= 5
    assert bayesopt._telling(losses[:400], losses[:400]) == losses[:400]


def test_a_long_search_goes_on() -> None:
    search = BayesOptSearch({"x": "uniform(0, 1)"}, "loss", "min", seed=0)
    for number in range(150):
        curve = [abs(number / 150 - 0.3) + 1 / epoch for epoch in range(1, 10)]
        search.add_evaluated_point({"x": number / 150}, curve[-1], intermediate_values=curve)
    assert abs(play(search, 0, 1, loss=lambda config: config["x"])[0]["x"] - 0.3) < 0.1
