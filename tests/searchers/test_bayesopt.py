from typing import Any

from contracts.searcher_contract import SPACE, SearcherContract, play
from threadpoolctl import threadpool_info, threadpool_limits

from tuner.searchers import bayesopt
from tuner.searchers.bayesopt import BayesOptSearch


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
