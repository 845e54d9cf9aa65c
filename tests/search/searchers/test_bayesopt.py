"""Bayesian optimisation: the contract, and what the Gaussian process is fitted to."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tuner.search.searchers._bayesopt import BayesOpt, at_most, informative_epochs, maximise
from tuner.search.searchers._learning import LearningSearch
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract, play


class TestBayesOpt(LearningSearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> LearningSearch:
        options = {"metric": "loss", "mode": "min", "startup": 8, **settings}
        return LearningSearch(BayesOpt(), space, **options)


def test_small_matrices_are_not_shared_out_over_threads(monkeypatch: Any) -> None:
    found: list[int] = []

    def watched(*args: Any) -> Any:
        found.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return maximise(*args)

    monkeypatch.setattr("tuner.search.searchers._bayesopt.maximise", watched)
    with threadpool_limits(2, user_api="blas"):
        play(TestBayesOpt().make(seed=0), 0, 9)
        after = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
    assert set(found) == {1}
    assert set(after) == {2}


def test_of_too_many_reports_the_best_and_a_spread_of_the_rest_are_kept() -> None:
    losses = [float(i) for i in range(1000)][::-1]
    kept = at_most(losses, losses)
    assert len(kept) == 400
    assert sorted(kept)[:200] == [float(i) for i in range(200)]
    assert max(kept) == 999.0
    assert max(np.diff(sorted(kept))) <= 5
    assert at_most(losses[:400], losses[:400]) == losses[:400]


def test_a_long_search_goes_on() -> None:
    search = TestBayesOpt().make({"x": "uniform(0, 1)"}, seed=0)
    for number in range(150):
        curve = [abs(number / 150 - 0.3) + 1 / epoch for epoch in range(1, 10)]
        search.add_evaluated_point({"x": number / 150}, curve[-1], intermediate_values=curve)
    assert abs(play(search, 0, 1, loss=lambda config: config["x"])[0]["x"] - 0.3) < 0.1


@given(st.dictionaries(st.integers(1, 40), st.floats(-5, 5), min_size=1))
def test_informative_epochs_are_of_the_curve_and_end_with_its_last(c: dict[int, float]) -> None:
    found = list(informative_epochs(c))
    assert set(found) <= set(c)
    assert found[-1] == max(c)
