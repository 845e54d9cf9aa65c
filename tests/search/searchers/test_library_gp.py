"""The package bayesian-optimization as a model: the contract, and what the library gets."""

import pytest
from bayes_opt import BayesianOptimization
from searches import ModelSearch, search_of

from tuner.search.searchers._library_gp import LibraryGP
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract, run_trials

LINE = {"x": "uniform(0, 1)"}


@pytest.mark.slow
class TestBayesianOptimization(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        # It is slow
        return ModelSearch(LibraryGP(), space, **{"startup": 14, **settings})


def test_library_gp_searches_near_the_best_allowed():
    search = ModelSearch(
        LibraryGP(), LINE, seed=1, startup=3, forbid=["x > 0.35 and x < 0.38"]
    )

    def loss(config):
        return (config["x"] - 0.4) ** 2

    for x in (0.1, 0.3, 0.6, 0.9):
        search.add_evaluated_point({"x": x}, loss({"x": x}))
    configs = run_trials(search, 0, 4, loss=loss)
    assert not any(0.35 < config["x"] < 0.38 for config in configs)
    assert min(abs(config["x"] - 0.4) for config in configs) < 0.05


def test_library_gp_gets_every_trial(monkeypatch):
    values = []

    def suggest(optimizer):
        values[:] = optimizer.space.target
        return {"0": 0.5}

    monkeypatch.setattr(BayesianOptimization, "suggest", suggest)
    search = ModelSearch(LibraryGP(), LINE, seed=1, startup=2)
    for number in range(4):
        search.suggest(str(number))
    for number in range(2):
        search.on_trial_complete(
            str(number), {"loss": 2.0 + number, "training_iteration": 1}
        )
    search.on_trial_complete("2", error=True)
    search.suggest("4")
    better, worse, failed, running = values
    assert better > running > worse == failed


@pytest.mark.parametrize(
    ("strategy", "library"),
    [("bayesopt", "bayesian-optimization"), ("hyperopt", "hyperopt")],
)
def test_settings_choose_the_engine(strategy, library):
    configs = []
    for engine in ("tuner", library):
        search = search_of(strategy, LINE, engine=engine, startup=2)
        configs.append(run_trials(search, 0, 3, loss=lambda config: config["x"]))
    ours, theirs = configs
    assert ours[:2] == theirs[:2]
    assert ours[2] != theirs[2]
