"""Bayesian optimisation: the contract, and what the Gaussian process is fitted to."""

import numpy as np
from searches import search_of
from threadpoolctl import threadpool_info, threadpool_limits

from tuner.search.searchers._bayesopt import maximise, predict_ends
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract, run_trials


class TestBayesOpt(LearningSearcherContract):
    trials = 13  # three of them the slow model's

    def make(self, space=SPACE, **settings):
        return search_of("bayesopt", space, **settings)


def test_propose_uses_one_thread_of_linear_algebra(monkeypatch):
    results = []

    def watched(*args):
        results.extend(
            p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"
        )
        return maximise(*args)

    monkeypatch.setattr("tuner.search.searchers._bayesopt.maximise", watched)
    with threadpool_limits(2, user_api="blas"):
        run_trials(TestBayesOpt().make(seed=0), 0, 9)
        after = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
    assert set(results) == {1}
    assert set(after) == {2}


def test_predicted_ends_of_complete_trials_are_their_losses():
    whole = [{epoch: 1 / epoch + n / 50 for epoch in range(1, 11)} for n in range(8)]
    end, low, high = predict_ends([*whole, {1: 1.03}])
    np.testing.assert_allclose(end[:8], [0.1 + n / 50 for n in range(8)], rtol=1e-9)
    np.testing.assert_allclose(low[:8], high[:8], rtol=1e-9)
    assert low[8] < end[8] < high[8]
    assert abs(end[8] - 0.13) < 0.05


def test_suggest_after_150_trials_is_near_the_best():
    search = TestBayesOpt().make({"x": "uniform(0, 1)"}, seed=0)
    for number in range(150):
        curve = [abs(number / 150 - 0.3) + 1 / epoch for epoch in range(1, 10)]
        search.add_evaluated_point(
            {"x": number / 150}, curve[-1], intermediate_values=curve
        )
    assert (
        abs(run_trials(search, 0, 1, loss=lambda config: config["x"])[0]["x"] - 0.3)
        < 0.1
    )


PLANE = {"x": "uniform(0, 1)", "y": "uniform(0, 1)"}


def bowl(config):
    return float((config["x"] - 0.6) ** 2 + (config["y"] - 0.3) ** 2)


def test_suggest_finds_the_best_on_the_border_of_forbidden_configs():
    search = TestBayesOpt().make(PLANE, seed=0, forbid=["x + y > 0.6"])
    configs = run_trials(search, 0, 24, loss=bowl)
    origins = [search.origin(f"{number:05d}") for number in range(8, 24)]
    assert origins.count("model") >= 15
    assert all(config["x"] + config["y"] <= 0.6 for config in configs)
    assert min(map(bowl, configs)) - 0.045 < 1e-3  # at x = 0.45, y = 0.15


def test_suggestions_at_a_time_are_spread_out_and_good():
    search = TestBayesOpt().make(PLANE, seed=0)
    run_trials(search, 0, 16, loss=bowl)
    results = [search.suggest(f"p{number}") for number in range(32)]
    u_ND = np.array([[config["x"], config["y"]] for config in results])
    far_NN = np.linalg.norm(u_ND[:, None] - u_ND, axis=2) + 9 * np.eye(len(u_ND))
    assert far_NN.min() > 0.002
    assert np.median(far_NN.min(axis=1)) > 0.02
    # Of random ones: 0.19
    assert np.median([bowl(config) for config in results]) < 0.15


def test_suggest_despite_diverged_trials_finds_the_best():
    search = TestBayesOpt().make(PLANE, seed=1)

    def loss(config):
        return 1e5 * (1 + bowl(config)) if config["x"] > 5 / 6 else bowl(config)

    assert min(map(bowl, run_trials(search, 0, 20, loss=loss))) < 1e-3
