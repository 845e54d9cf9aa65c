"""The suggestions of bayesopt and hyperopt in turns: the contract, and that both take part."""

import numpy as np
from searches import search_of

from tuner.search.searchers._learning import Mixed
from tuner.testing.searcher_contract import SPACE, LearningSearcherContract


class TestMixed(LearningSearcherContract):
    trials = 13  # three of them the slow models'

    def make(self, space=SPACE, **settings):
        return search_of("mixed", space, **settings)


class Fixed:
    def __init__(self, u):
        self.u = u

    def propose(self, data, encoding, rng):
        yield np.array([self.u])


def test_propose_takes_each_model_about_as_often():
    mixed = Mixed((Fixed(0.0), Fixed(1.0)))
    draws = [
        next(mixed.propose(None, None, np.random.default_rng(n)))[0] for n in range(400)
    ]
    assert 0.4 < np.mean(draws) < 0.6
