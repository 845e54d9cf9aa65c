"""A portfolio: which configs of earlier searches a new one tries first, and in which order."""

import math

import numpy as np

from tuner.search.searchers._portfolio import (
    order_greedily,
    order_leaders,
    predict_ranks,
)
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

SPACE = Encoding(parse_space({"x": "uniform(0, 1)", "kind": "choice(['a', 'b', 'c'])"}))
POINTS = [{"x": n / 11, "kind": "abc"[n % 3]} for n in range(12)]


def source(best, *, scale=1.0):
    """A search in which the configs near x = `best` won."""
    return [(config, scale * abs(config["x"] - best)) for config in POINTS]


def test_greedy_takes_the_best_on_average_and_then_what_it_lacks():
    rank_SM = np.array([[0.1, 0.0, 0.9, 0.2], [0.2, 0.8, 0.0, 0.3]])
    assert order_greedily(rank_SM) == [0, 2, 1, 3]
    assert order_greedily(np.zeros((2, 3))) == [0, 1, 2]
    assert order_greedily(np.array([[0.5, 0.5], [0.5, 0.4]])) == [1, 0]


def test_predicted_ranks_are_the_share_of_better_trials():
    u_ND = SPACE.snap(np.array([SPACE.encode(config) for config in POINTS]))
    queries = [{"x": x, "kind": "a"} for x in (0.02, 0.5, 0.98)]
    u_MD = SPACE.snap(np.array([SPACE.encode(config) for config in queries]))
    near, middle, far = predict_ranks(SPACE, u_ND, u_ND[:, 0], u_MD)
    assert near < 0.2 < middle < 0.8 < far


def leaders_of(*sources, offers=lambda config: True, encoding=SPACE):
    return order_leaders(sources, encoding, offers=offers)


def test_order_leaders_has_the_best_config_of_each_source_once():
    sources = [source(0.1), source(0.1), source(0.9)]
    configs = leaders_of(*sources)
    assert [round(config["x"] * 11) for config in configs] == [1, 10]
    assert configs == leaders_of(source(0.1, scale=1e6), *sources[1:])


def test_order_leaders_leaves_out_what_is_not_offered():
    configs = leaders_of(
        source(0.1), source(0.9), offers=lambda config: config != POINTS[1]
    )
    assert sorted(config["x"] for config in configs) == [2 / 11, 10 / 11]
    assert leaders_of(source(0.1), offers=lambda config: False) == []


def test_order_leaders_has_no_config_whose_worth_is_no_number():
    assert leaders_of([(POINTS[0], math.nan), (POINTS[1], 1.0)]) == [POINTS[1]]


def test_order_leaders_needs_no_more_than_a_trial():
    trial = ({"x": 1}, 0.5)
    assert leaders_of([trial], [trial], encoding=Encoding({"x": 1})) == [{"x": 1}]
