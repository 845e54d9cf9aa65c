"""A portfolio: which configs of earlier searches a new one tries first, and in which order."""

import numpy as np

from tuner.search.searchers._portfolio import Source, greedy, portfolio, predicted_ranks
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

SPACE = Encoding(parse_space({"x": "uniform(0, 1)", "kind": "choice(['a', 'b', 'c'])"}))
POINTS = [{"x": n / 11, "kind": "abc"[n % 3]} for n in range(12)]


def source(best, *, scale=1.0, offered=lambda config: True, configs=POINTS):
    """A search in which the configs near x = `best` won; half of its trials were stopped."""
    ends = [scale * abs(config["x"] - best) for config in configs]
    curves = [
        {1: end + scale} | ({} if number % 2 else {2: end}) for number, end in enumerate(ends)
    ]
    return Source(configs, curves, [offered(config) for config in configs])


def test_greedy_takes_the_best_on_average_and_then_what_it_lacks():
    rank_SM = np.array([[0.1, 0.0, 0.9, 0.2], [0.2, 0.8, 0.0, 0.3]])
    assert greedy(rank_SM) == [0, 2, 1, 3]
    assert greedy(np.zeros((2, 3))) == [0, 1, 2]
    assert greedy(np.array([[0.5, 0.5], [0.5, 0.4]])) == [1, 0]


def test_predicted_ranks_are_the_share_of_better_trials():
    u_ND = SPACE.snap(np.array([SPACE.encode(config) for config in POINTS]))
    queries = [{"x": x, "kind": "a"} for x in (0.02, 0.5, 0.98)]
    u_MD = SPACE.snap(np.array([SPACE.encode(config) for config in queries]))
    near, middle, far = predicted_ranks(SPACE, u_ND, u_ND[:, 0], u_MD)
    assert near < 0.2 < middle < 0.8 < far


def test_portfolio_has_the_best_config_of_each_source_once():
    sources = [source(0.1), source(0.1), source(0.9)]
    configs = portfolio(sources, SPACE, 8)
    assert [round(config["x"] * 11) for config in configs] == [1, 10]
    assert configs == portfolio([source(0.1, scale=1e6), *sources[1:]], SPACE, 8)
    assert portfolio(sources, SPACE, 1) == configs[:1]


def test_portfolio_leaves_out_what_is_not_offered():
    sources = [source(0.1, offered=lambda config: config["kind"] != "b"), source(0.9)]
    configs = portfolio(sources, SPACE, 8)
    assert sorted(config["x"] for config in configs) == [2 / 11, 10 / 11]
    assert portfolio([source(0.1, offered=lambda config: False)], SPACE, 8) == []


def test_portfolio_needs_no_more_than_a_trial():
    sources = [source(0.5, configs=[POINTS[n]]) for n in (0, 1)]
    assert portfolio(sources, SPACE, 8) == POINTS[:2]
    constant = Source([{"x": 1}], [{1: 0.5}], [True])
    assert portfolio([constant, constant], Encoding({"x": 1}), 8) == [{"x": 1}]
