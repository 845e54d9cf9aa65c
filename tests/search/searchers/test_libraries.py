"""The engine bayesian-optimization: the contract, and what the library is told."""

from __future__ import annotations

from typing import Any

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
from tuner.spec.space.domains import Space
from tuner.spec.space.encoding import Encoding
from tuner.spec.strategies import SEARCHERS
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract, play
from tuner.testing.spaces import spaces

LINE = {"x": "uniform(0, 1)"}


def library(space: Any = SPACE, **settings: Any) -> LearningSearch:
    options = {"metric": "loss", "mode": "min", "startup": 8, **settings}
    return LearningSearch(LibraryGP(), space, **options)


@pytest.mark.slow
class TestBayesianOptimization(LearningSearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> LearningSearch:
        return library(space, **{"startup": 14, **settings})  # its suggestions take long


@given(spaces, st.integers(0, 99))
def test_a_config_is_the_same_behind_its_features(space: Space, seed: int) -> None:
    encoding = Encoding(space)
    features = Features(encoding)
    u_ND = encoding.snap(np.random.default_rng(seed).random((1, len(encoding))))
    x_NF = features(u_ND)
    assert (x_NF <= features.largest_F + 1e-12).all()
    assert encoding.decode(features.point(x_NF[0])) == encoding.decode(u_ND[0])


def test_it_searches_near_the_best() -> None:
    search = library(LINE, seed=1, startup=4)
    for x in (0.1, 0.3, 0.6, 0.9):
        search.add_evaluated_point({"x": x}, (x - 0.4) ** 2)
    found = play(search, 0, 4, loss=lambda config: (config["x"] - 0.4) ** 2)
    assert min(abs(config["x"] - 0.4) for config in found) < 0.05


def test_it_is_told_of_every_trial(monkeypatch: Any) -> None:
    from bayes_opt import BayesianOptimization

    told: list[float] = []

    def suggest(optimizer: BayesianOptimization) -> dict[str, float]:
        told[:] = optimizer.space.target
        return {"0": 0.5}

    monkeypatch.setattr(BayesianOptimization, "suggest", suggest)
    search = library(LINE, seed=1, startup=2)
    for number in range(4):
        search.suggest(str(number))
    for number in range(2):
        search.on_trial_complete(str(number), {"loss": 2.0 + number, "training_iteration": 1})
    search.on_trial_complete("2", error=True)
    search.suggest("4")
    better, worse, failed, running = told
    assert better > running > worse == failed


def test_what_was_refused_is_not_suggested_again() -> None:
    search = library(LINE, seed=1, startup=3, forbid=["x > 0.35 and x < 0.5"])
    for x in (0.1, 0.3, 0.6, 0.9):
        search.add_evaluated_point({"x": x}, (x - 0.4) ** 2)
    found = play(search, 0, 3, loss=lambda config: (config["x"] - 0.4) ** 2)
    assert not any(0.35 < config["x"] < 0.5 for config in found)
    assert [search.origin(f"{number:05d}") for number in range(3)].count("warm") >= 2


def test_settings_name_the_engine() -> None:
    settings = SEARCHERS.settings("bayesopt")
    configs = []
    for engine in ("tuner", "bayesian-optimization"):
        built = settings(space=LINE, engine=engine, startup=2)
        search = built.build(seed=0, objective=Objective(metric="loss", mode="min")).search
        configs.append(play(search, 0, 3, loss=lambda config: config["x"]))
    ours, theirs = configs
    assert ours[:2] == theirs[:2]
    assert ours[2] != theirs[2]


def hyperopts_own(space: Any = SPACE, **settings: Any) -> LearningSearch:
    return LearningSearch(HyperOptTPE(), space, **{"metric": "loss", "mode": "min", **settings})


@pytest.mark.slow
class TestHyperOptTPE(LearningSearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> LearningSearch:
        return hyperopts_own(space, **settings)


@given(spaces, st.integers(0, 99))
def test_a_point_is_the_same_behind_hyperopts_values(space: Space, seed: int) -> None:
    encoding = Encoding(space)
    (u_D,) = encoding.snap(np.random.default_rng(seed).random((1, len(encoding))))
    assert np.array_equal(point_of(values_of(u_D, encoding), encoding), u_D, equal_nan=True)


def test_it_searches_near_the_best_and_in_its_branch() -> None:
    space = {"kind": "choice(['bad', {'name': 'good', 'x': uniform(0, 1)}])"}
    search = hyperopts_own(space, seed=1)

    def loss(config: dict[str, Any]) -> float:
        return 1.0 if config["kind"] == "bad" else config["kind"]["x"]

    for number in range(40):
        config = {"kind": {"name": "good", "x": number / 40}}
        search.add_evaluated_point(config, loss(config))
    search.add_evaluated_point({"kind": "bad"}, 1.0)
    found = [loss(config) for config in play(search, 0, 10, loss=loss)]
    assert 1.0 not in found
    assert np.median(found) < 0.25


def test_what_failed_and_what_runs_is_told_without_a_loss(monkeypatch: Any) -> None:
    from hyperopt import tpe

    told: list[dict[str, Any]] = []
    suggest = tpe.suggest

    def watched(ids: Any, domain: Any, trials: Any, *args: Any, **kwargs: Any) -> Any:
        told[:] = trials.trials
        return suggest(ids, domain, trials, *args, **kwargs)

    monkeypatch.setattr(tpe, "suggest", watched)
    search = hyperopts_own({"x": "uniform(0, 1)"}, seed=1, startup=2)
    for number in range(3):
        search.suggest(str(number))
    for number in range(2):
        search.on_trial_complete(str(number), {"loss": 2.0 + number, "training_iteration": 1})
    search.on_trial_complete("2", error=True)
    search.suggest("3")
    search.suggest("4")
    assert [doc["result"].get("loss") for doc in told] == [2.0, 3.0, None, None]


def test_a_spec_names_the_engine() -> None:
    search = {"strategy": "hyperopt", "space": {"x": "uniform(0, 1)"}}

    def faults(**settings: Any) -> str:
        with pytest.raises(SpecError) as refused:
            build_spec({"search": {**search, **settings}, "num_samples": 3})
        return "\n".join(map(str, refused.value.faults))

    spec = build_spec({"search": {**search, "engine": "hyperopt"}, "num_samples": 3})
    assert build_spec(spec.plain()) == spec
    assert faults(engine="own") == "search.engine: unknown engine 'own'; available: hyperopt, tuner"
    own = "is not used by engine hyperopt, which has its own"
    assert faults(engine="hyperopt", gamma=0.3, candidates=8) == (
        f"search.gamma: {own}, got 0.3\nsearch.candidates: {own}, got 8"
    )
