"""BOHB: the contract, and what it makes of trials of different age."""

import numpy as np
import pytest
from searches import search_of

from tuner.testing.searcher_contract import SPACE, LearningSearcherContract


class TestBOHB(LearningSearcherContract):
    def make(self, space=SPACE, **settings):
        return search_of("bohb", space, **settings)


@pytest.mark.parametrize(("share", "model"), [(0.0, 20), (1.0, 0)])
def test_random_share_is_drawn_without_the_model(share, model):
    search = search_of("bohb", {"x": "uniform(0, 1)"}, seed=1, random_share=share)
    for number in range(30):
        config = search.suggest(str(number))
        assert isinstance(config, dict)
        search.on_trial_complete(
            str(number), {"loss": config["x"], "training_iteration": 1}
        )
    assert [search.origin(str(n)) for n in range(30)].count("model") == model


def test_propose_does_not_prefer_trials_for_their_age():
    """The loss falls with every epoch: by their last values, only the oldest would be good."""
    search = search_of("bohb", {"x": "uniform(0, 1)"}, seed=3, random_share=0.0)
    for number in range(40):
        x = (number + 0.5) / 40
        epochs = 9 if x > 0.5 else 1  # the better half happens to be young
        intermediate = [(1 + x) / epoch for epoch in range(1, epochs + 1)]
        search.add_evaluated_point(
            {"x": x},
            intermediate[-1],
            pruned=epochs == 1,
            intermediate_values=intermediate,
        )
    configs = [search.suggest(str(number)) for number in range(12)]
    assert (
        np.median([config["x"] for config in configs if isinstance(config, dict)]) < 0.3
    )
