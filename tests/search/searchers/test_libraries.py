"""The engines of other packages: the contract, and what the libraries get."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import SpecError
from tuner.search.searchers._bayesopt import Features
from tuner.search.searchers._learning import LearningSearch
from tuner.search.searchers._libraries import HyperOptTPE, LibraryGP, point_of, values_of
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Objective
from tuner.spec.space.encoding import Encoding
from tuner.spec.strategies import SEARCHERS
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract, play
from tuner.testing.spaces import spaces

LINE = {"x": "uniform(0, 1)"}


def search_of(model, space, **settings):
    return LearningSearch(model, space, **{"metric": "loss", "mode": "min", **settings})


@pytest.mark.slow
class TestBayesianOptimization(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        return search_of(LibraryGP(), space, **{"startup": 14, **settings})  # it is slow


@pytest.mark.slow
class TestHyperOptTPE(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        return search_of(HyperOptTPE(), space, **settings)


@given(spaces, st.integers(0, 99))
def test_library_values_of_a_point_give_it_back(space, seed):
    encoding = Encoding(space)
    (u_D,) = encoding.snap(np.random.default_rng(seed).random((1, len(encoding))))
    assert np.array_equal(point_of(values_of(u_D, encoding), encoding), u_D, equal_nan=True)
    features = Features(encoding)
    x_NF = features(u_D[None])
    assert (x_NF <= features.largest_F + 1e-12).all()
    assert encoding.decode(features.point(x_NF[0])) == encoding.decode(u_D)


@pytest.mark.parametrize("forbid", [[], ["x > 0.35 and x < 0.5"]])
def test_library_gp_searches_near_the_best_allowed(forbid):
    search = search_of(LibraryGP(), LINE, seed=1, startup=4 - len(forbid), forbid=forbid)

    def loss(config):
        return (config["x"] - 0.4) ** 2

    for x in (0.1, 0.3, 0.6, 0.9):
        search.add_evaluated_point({"x": x}, loss({"x": x}))
    configs = play(search, 0, 4, loss=loss)
    if forbid:
        assert not any(0.35 < config["x"] < 0.5 for config in configs)
        assert [search.origin(f"{number:05d}") for number in range(3)].count("warm") >= 2
    else:
        assert min(abs(config["x"] - 0.4) for config in configs) < 0.05


def test_hyperopt_tpe_searches_near_the_best_in_its_branch():
    space = {"kind": "choice(['bad', {'name': 'good', 'x': uniform(0, 1)}])"}
    search = search_of(HyperOptTPE(), space, seed=1)

    def loss(config):
        return 1.0 if config["kind"] == "bad" else config["kind"]["x"]

    for number in range(40):
        config = {"kind": {"name": "good", "x": number / 40}}
        search.add_evaluated_point(config, loss(config))
    search.add_evaluated_point({"kind": "bad"}, 1.0)
    losses = [loss(config) for config in play(search, 0, 10, loss=loss)]
    assert 1.0 not in losses
    assert np.median(losses) < 0.25


def trials_of_every_status(model):
    """A search that has two completed trials, a failed and a running one, and suggests another."""
    search = search_of(model, LINE, seed=1, startup=2)
    for number in range(4):
        search.suggest(str(number))
    for number in range(2):
        search.on_trial_complete(str(number), {"loss": 2.0 + number, "training_iteration": 1})
    search.on_trial_complete("2", error=True)
    search.suggest("4")


def test_library_gp_gets_every_trial(monkeypatch):
    from bayes_opt import BayesianOptimization

    values = []

    def suggest(optimizer):
        values[:] = optimizer.space.target
        return {"0": 0.5}

    monkeypatch.setattr(BayesianOptimization, "suggest", suggest)
    trials_of_every_status(LibraryGP())
    better, worse, failed, running = values
    assert better > running > worse == failed


def test_hyperopt_tpe_gets_failed_and_running_trials_without_a_loss(monkeypatch):
    from hyperopt import tpe

    documents, suggest = [], tpe.suggest

    def watched(ids, domain, trials, *args, **kwargs):
        documents[:] = trials.trials
        return suggest(ids, domain, trials, *args, **kwargs)

    monkeypatch.setattr(tpe, "suggest", watched)
    trials_of_every_status(HyperOptTPE())
    assert [doc["result"].get("loss") for doc in documents] == [2.0, 3.0, None, None]


def test_bayesopt_settings_choose_the_engine():
    configs = []
    for engine in ("tuner", "bayesian-optimization"):
        settings = SEARCHERS.settings("bayesopt")(space=LINE, engine=engine, startup=2)
        search = settings.build(seed=0, objective=Objective(metric="loss", mode="min")).search
        configs.append(play(search, 0, 3, loss=lambda config: config["x"]))
    ours, theirs = configs
    assert ours[:2] == theirs[:2]
    assert ours[2] != theirs[2]


def test_hyperopt_settings_choose_the_engine():
    def read(**settings):
        search = {"strategy": "hyperopt", "space": LINE, **settings}
        return build_spec({"search": search, "num_samples": 3})

    spec = read(engine="hyperopt")
    assert build_spec(spec.plain()) == spec
    with pytest.raises(SpecError, match="unknown engine 'own'; available: hyperopt, tuner"):
        read(engine="own")
    with pytest.raises(SpecError) as refused:
        read(engine="hyperopt", gamma=0.3, candidates=8)
    assert [fault.key for fault in refused.value.faults] == ["search.gamma", "search.candidates"]
