"""BOHB: the contract, its density, and what it makes of trials of different age."""

from typing import Any

import numpy as np
import pytest
from contracts.searcher_contract import SPACE, SearcherContract
from hypothesis import given
from hypothesis import strategies as st
from strategies import spaces

from tuner.domains import parse_space
from tuner.searchers.bohb import BOHBSearch, Density
from tuner.searchers.encoding import Encoding

SQUARE = Encoding(parse_space({"x": "uniform(0, 1)", "kind": "choice(['a', 'b', 'c'])"}))


class TestBOHBSearch(SearcherContract):
    def make(self, space: Any = SPACE, **settings: Any) -> BOHBSearch:
        return BOHBSearch(space, **{"metric": "loss", "mode": "min", **settings})


def test_a_density_is_one_over_the_space() -> None:
    density = Density(SQUARE.snap(np.array([[0.02, 0.1], [0.4, 0.5], [0.97, 0.9]])), SQUARE)
    grid = np.stack(np.meshgrid((np.arange(400) + 0.5) / 400, [1 / 6, 0.5, 5 / 6]), -1)
    values = np.exp(density.log_density(grid.reshape(-1, 2)))
    assert values.mean() == pytest.approx(1.0, abs=1e-3)


def test_draws_follow_the_density() -> None:
    density = Density(SQUARE.snap(np.array([[0.02, 0.1], [0.05, 0.1]])), SQUARE)
    drawn = density.draw(20_000, 1.0, np.random.default_rng(0))
    share = (drawn[:, 0] < 0.25).mean()
    left = (np.arange(100) + 0.5) / 400
    points = np.stack(np.meshgrid(left, [1 / 6, 0.5, 5 / 6]), -1).reshape(-1, 2)
    assert share == pytest.approx(np.exp(density.log_density(points)).mean() / 4, abs=0.01)
    wide = density.draw(20_000, 3.0, np.random.default_rng(0))
    assert (wide[:, 0] < 0.25).mean() < share


@given(spaces, st.integers(0, 12), st.integers(0, 99))
def test_a_density_of_any_space_is_finite_where_it_draws(space: Any, count: int, seed: int) -> None:
    encoding, rng = Encoding(space), np.random.default_rng(seed)
    density = Density(encoding.snap(rng.random((count, len(encoding)))), encoding)
    drawn = density.draw(16, 2.0, rng)
    assert drawn.shape == (16, len(encoding))
    assert np.isfinite(density.log_density(drawn)).all()
    for u_D in drawn:
        encoding.encode(encoding.decode(u_D))


@pytest.mark.parametrize(("share", "model"), [(0.0, 20), (1.0, 0)])
def test_the_random_share_is_drawn_without_the_model(share: float, model: int) -> None:
    search = BOHBSearch({"x": "uniform(0, 1)"}, "loss", "min", seed=1, random_share=share)
    for number in range(30):
        config = search.suggest(str(number))
        assert isinstance(config, dict)
        search.on_trial_complete(str(number), {"loss": config["x"], "training_iteration": 1})
    assert [search.origin(str(n)) for n in range(30)].count("model") == model


def test_trials_that_were_stopped_early_are_neither_good_nor_bad_for_their_age() -> None:
    """The loss falls with every epoch: by their last values, only the oldest would be good."""
    search = BOHBSearch({"x": "uniform(0, 1)"}, "loss", "min", seed=3, random_share=0.0)
    for number in range(40):
        x = (number + 0.5) / 40
        epochs = 9 if x > 0.5 else 1  # the better half happens to be young
        intermediate = [(1 + x) / epoch for epoch in range(1, epochs + 1)]
        search.add_evaluated_point(
            {"x": x}, intermediate[-1], pruned=epochs == 1, intermediate_values=intermediate
        )
    found = [search.suggest(str(number)) for number in range(12)]
    assert np.median([config["x"] for config in found if isinstance(config, dict)]) < 0.3
