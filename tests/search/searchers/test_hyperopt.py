"""HyperOpt: the contract, and how widely it searches."""

import numpy as np
from searches import search_of

from tuner.testing.searcher_contract import SPACE, LearningSearcherContract


class TestHyperOpt(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        return search_of("hyperopt", space, **settings)


def spread(epochs):
    """How far suggestions go from the good trials, once others were stopped at so many epochs."""
    search = TestHyperOpt().make({"x": "uniform(0, 1)", "y": "uniform(0, 1)"}, seed=1)
    for number in range(60):
        x = 0.5 + number / 600
        losses = [x] * (2 if number < 30 else epochs)
        search.add_evaluated_point(
            {"x": x, "y": 0.3}, losses[-1], pruned=True, intermediate_values=losses
        )
    configs = [search.suggest(str(number)) for number in range(20)]
    return float(
        np.mean(
            [abs(config["y"] - 0.3) for config in configs if isinstance(config, dict)]
        )
    )


def test_tpe_searches_more_widely_once_trials_are_stopped_early():
    assert spread(epochs=1) > 1.5 * spread(epochs=2)
