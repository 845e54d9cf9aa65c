"""hyperopt's own expressions become our domains, or are refused by name."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hyperopt import hp
from hyperopt.pyll import as_apply, scope
from searches import search_of

from tuner.errors import SpecError
from tuner.settings import FaultsError
from tuner.spec.experiment import build_spec
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.hyperopt import from_hyperopt
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import space_text
from tuner.testing.searcher_contract import play

LOG_4, LOG_1 = -9.210340371976182, -2.302585092994046  # of 1e-4 and 0.1


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (hp.uniform("x", 0, 2), "uniform(0.0, 2.0)"),
        (hp.uniform("x", low=-1, high=2), "uniform(-1.0, 2.0)"),
        (hp.quniform("x", 0, 1, 0.25), "quniform(0.0, 1.0, 0.25)"),
        (hp.loguniform("x", LOG_4, LOG_1), "loguniform(0.0001, 0.1)"),
        (hp.qloguniform("x", 0, 4.605170185988092, 2), "qloguniform(1.0, 100.0, 2.0)"),
        (hp.normal("x", 1, 0.5), "randn(1.0, 0.5)"),
        (hp.qnormal("x", 1, 0.5, 0.1), "qrandn(1.0, 0.5, 0.1)"),
        (hp.randint("x", 5), "randint(0, 5)"),
        (hp.randint("x", 3, 8), "randint(3, 8)"),
        (hp.uniformint("x", 1, 9), "randint(1, 10)"),
        (scope.int(hp.quniform("x", 2, 9, 2)), "qrandint(2, 9, 2)"),
        (scope.int(hp.qloguniform("x", 0, 4.605170185988092, 1)), "lograndint(1, 101)"),
        (hp.choice("x", [1, "a", None, True]), "choice([1, 'a', None, True])"),
        (hp.choice("x", [[1, 2], (3,)]), "choice([[1, 2], [3]])"),
        (hp.pchoice("x", [(0.5, 1), (0.5, 2)]), "choice([1, 2])"),
        (
            hp.choice(
                "x", [{"a": 1}, {"b": hp.uniform("b", 0, 1), "c": {"d": hp.randint("d", 2)}}]
            ),
            "choice([{'a': 1}, {'b': uniform(0.0, 1.0), 'c': {'d': randint(0, 2)}}])",
        ),
    ],
)
def test_from_hyperopt_translates_expressions(expression: Any, text: str) -> None:
    assert space_text(parse_space(from_hyperopt({"k": expression}))) == {"k": text}


def test_build_spec_accepts_hyperopt_space_for_any_strategy() -> None:
    spec = build_spec({"search": {"space": {"k": hp.uniform("x", 0, 1)}}, "num_samples": 1})
    assert str(spec.search.space["k"]) == "uniform(0.0, 1.0)"
    with pytest.raises(SpecError, match=r"search\.space\.k: has no equal here"):
        build_spec({"search": {"space": {"k": hp.lognormal("x", 0, 1)}}, "num_samples": 1})


def test_from_hyperopt_keeps_other_values() -> None:
    space = {"a": 3, "b": "uniform(0, 1)", "c": {"d": [1, 2]}}
    assert from_hyperopt(space) == space
    whole = as_apply({"a": 3, "b": hp.uniform("b", 0, 1)})
    assert space_text(parse_space(from_hyperopt(whole))) == {"a": 3, "b": "uniform(0.0, 1.0)"}


X = hp.uniform("x", 0, 1)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        (hp.lognormal("x", 0, 1), r"k: has no equal here, got \"hp.lognormal\('x', ...\)\"; avail"),
        (hp.qlognormal("x", 0, 1, 1), "k: has no equal here"),
        (hp.pchoice("x", [(0.9, 1), (0.1, 2)]), r"k: has options of unequal weight.*\[0.9, 0.1\]"),
        (hp.uniform("x", 0, 1) + 1, r"k: has no equal here, got \"add\(hp.uniform"),
        (scope.int(hp.uniform("x", 0, 9)), r"k: has no equal here, got \"int\(hp.uniform"),
        (hp.uniform("x", 0, hp.uniform("y", 1, 2)), "k: must have numbers as its arguments"),
        (hp.choice("x", [0, hp.uniform("y", 1, 2)]), "k: has an option that is a hyperparameter"),
        (hp.choice("x", [[hp.uniform("y", 1, 2)]]), "k: has hyperparameters in a list"),
        ([[hp.uniform("x", 1, 2)]], "k: has hyperparameters in a list"),
        (hp.choice("x", [{"a": hp.lognormal("y", 0, 1)}]), r"k\.a: has no equal here"),
        ({"a": X, "b": X}, "x: is the label of more than one hyperparameter"),
        (scope.int(hp.quniform("x", 0, 1, 0.5)), "k: .*whole numbers, got 0.5"),
    ],
)
def test_from_hyperopt_refuses_unsupported_expressions(expression: Any, fault: str) -> None:
    with pytest.raises(FaultsError, match=fault):
        from_hyperopt({"k": expression})


def test_from_hyperopt_reports_all_faults() -> None:
    space = {"a": hp.lognormal("a", 0, 1), "b": hp.lognormal("b", 0, 1), "c": 1}
    with pytest.raises(FaultsError) as refused:
        parse_space(space)
    assert [fault.key for fault in refused.value.faults] == ["a", "b"]
    with pytest.raises(FaultsError, match=r"must be a mapping of names.*hp\.choice"):
        parse_space(hp.choice("model", [{"a": 1}, {"a": 2}]))


def test_from_hyperopt_shares_labels_between_branches() -> None:
    options = [{"name": "a", "x": X}, {"name": "b", "x": X}]
    space = parse_space(from_hyperopt({"k": hp.choice("k", options)}))
    assert len(Encoding(space)) == 3


def native() -> dict[str, Any]:
    sgd = {"name": "sgd", "nesterov": hp.choice("nesterov", [True, False])}
    adam = {"name": "adam", "more": {"beta": hp.uniform("beta", 0.8, 0.99)}}
    return {
        "lr": hp.loguniform("lr", LOG_4, 0),
        "layers": hp.uniformint("layers", 1, 8),
        "optimizer": hp.choice("optimizer", [sgd, adam]),
        "fixed": 3,
    }


def test_search_of_native_space_learns_and_pickles() -> None:
    point = {"lr": 0.01, "optimizer": {"name": "adam", "more": {"beta": 0.9}}}
    search = search_of("hyperopt", native(), seed=1, points_to_evaluate=[point])
    configs = play(search, 0, 30)
    assert configs[0]["optimizer"] == point["optimizer"]
    for config in configs:
        assert 1e-4 <= config["lr"] <= 1
        assert type(config["layers"]) is int
        assert ("nesterov" in config["optimizer"]) == (config["optimizer"]["name"] == "sgd")
    assert {config["layers"] for config in configs} <= set(range(1, 9))
    assert search.origin("00029") == "model"
    copy = pickle.loads(pickle.dumps(search))
    after = play(search, 30, 3)
    assert play(copy, 30, 3) == after
