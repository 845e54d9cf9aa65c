"""Bayesian optimisation: the contract, and what the Gaussian process is fitted to."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tuner.search.searchers._bayesopt import (
    BayesOpt,
    at_most,
    informative_epochs,
    maximise,
    targets,
)
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


PLANE = {"x": "uniform(0, 1)", "y": "uniform(0, 1)"}


def bowl(config: Any) -> float:
    return float((config["x"] - 0.6) ** 2 + (config["y"] - 0.3) ** 2)


def test_the_best_on_the_border_of_what_is_allowed_is_found() -> None:
    search = TestBayesOpt().make(PLANE, seed=0, forbid=["x + y > 0.6"])
    configs = play(search, 0, 24, loss=bowl)
    origins = [search.origin(f"{number:05d}") for number in range(8, 24)]
    assert origins.count("model") >= 15
    assert all(config["x"] + config["y"] <= 0.6 for config in configs)
    assert min(map(bowl, configs)) - 0.045 < 1e-3  # at x = 0.45, y = 0.15


def test_many_at_a_time_are_spread_out_and_still_good() -> None:
    search = TestBayesOpt().make(PLANE, seed=0)
    play(search, 0, 16, loss=bowl)
    found = [search.suggest(f"p{number}") for number in range(32)]
    u_ND = np.array([[config["x"], config["y"]] for config in found])
    far_NN = np.linalg.norm(u_ND[:, None] - u_ND, axis=2) + 9 * np.eye(len(u_ND))
    assert far_NN.min() > 0.002
    assert np.median(far_NN.min(axis=1)) > 0.02
    assert np.median([bowl(config) for config in found]) < 0.15  # of random ones: 0.19


def test_a_loss_that_diverges_in_one_config_of_six_hides_nothing() -> None:
    search = TestBayesOpt().make(PLANE, seed=1)

    def loss(config: Any) -> float:
        return 1e5 * (1 + bowl(config)) if config["x"] > 5 / 6 else bowl(config)

    assert min(map(bowl, play(search, 0, 20, loss=loss))) < 1e-3


@settings(max_examples=25)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_targets_keep_the_order_of_losses(losses: list[float]) -> None:
    found = targets(np.array(losses))
    assert (np.diff(found[np.argsort(losses, kind="stable")]) >= -1e-9).all()
    assert math.isfinite(float(found.sum()))
