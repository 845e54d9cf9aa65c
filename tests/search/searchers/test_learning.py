"""What the searchers that learn share: their trials, and when the model is used."""

import math

import numpy as np
import pytest
from searches import ModelSearch, search_of

from tuner.errors import SpecError
from tuner.search.searchers._learning import draw_untried
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.parsing import parse_space

SPACE = {"x": "uniform(0, 1)"}


class MiddleSearch(ModelSearch):
    """Its model proposes the middle, then nothing; `seen` is what the model got."""

    seen = None

    def __init__(self, space=SPACE, *, startup=2, **settings):
        super().__init__(self, space, startup=startup, **settings)

    def propose(self, data, encoding, rng):
        self.seen = data
        yield np.full(len(encoding), 0.5)

    def begin(self, *trial_ids):
        return [self.suggest(trial_id) for trial_id in trial_ids]

    def report(self, trial_id, loss, epoch=1):
        self.on_trial_result(trial_id, {"loss": loss, "training_iteration": epoch})

    def complete(self, trial_id, loss, epoch):
        self.on_trial_complete(trial_id, {"loss": loss, "training_iteration": epoch})

    def data(self):
        self.suggest("next")
        return self.seen


def test_model_is_used_once_enough_trials_have_reported():
    search = MiddleSearch()
    search.begin(*"abcd")
    search.report("a", 1.0)
    search.begin("e")
    assert search.seen is None
    search.report("b", 2.0)
    assert search.suggest("f") == {"x": 0.5}
    assert [search.origin(t) for t in "abcdef"] == [*["random"] * 5, "model"]
    search.begin("g")  # the middle is known by now
    assert search.origin("g") == "random"


def test_model_gets_trials_by_their_status():
    search = MiddleSearch(startup=1)
    search.begin("ended", "live", "failed", "nan", "pending", "lost", "partly")
    search.report("ended", 3.0)
    search.complete("ended", 1.0, 2)
    search.report("live", 2.0)
    search.report("failed", 5.0)
    search.on_trial_complete("failed", error=True)
    search.complete("nan", math.nan, 1)
    search.on_trial_complete("lost")
    search.report("partly", 4.0)
    search.on_trial_complete("partly")
    data = search.data()
    assert data.curves == [{1: 3.0, 2: 1.0}, {1: 2.0}, {1: 4.0}]
    assert data.live_N.tolist() == [False, True, False]
    assert (len(data.u_ND), len(data.failed_ND), len(data.pending_PD)) == (3, 2, 1)
    assert data.loss_N.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert np.argsort(data.loss_N).tolist() == [1, 0, 2]


def test_model_avoids_trials_beyond_the_limits():
    search = MiddleSearch(startup=3, limits=("size < 9",))

    def report(trial_id, loss, size):
        search.on_trial_result(
            trial_id, {"loss": loss, "size": size, "training_iteration": 1}
        )

    search.begin("live", "late", "ended", "within", "more")
    report("live", 0.0, 9)
    report("late", 0.0, 9)
    report("late", 3.0, 8)
    result = {"loss": 0.0, "size": 9, "training_iteration": 1}
    search.on_trial_complete("ended", result)
    search.begin("another")
    assert search.seen is None  # a single loss is no scale
    report("within", 2.0, 1)
    data = search.data()
    assert data.curves == [{1: 3.0}, {1: 2.0}]
    assert (len(data.failed_ND), len(data.pending_PD)) == (2, 2)
    assert search.trials["ended"].status != "lost"  # so its config does not come again


@pytest.mark.parametrize("strategy", ["bayesopt", "hyperopt", "bohb"])
def test_strategies_learn_where_a_limit_runs(strategy):
    space = {"x": "uniform(0, 1)", "y": "uniform(0, 1)"}
    search = search_of(strategy, space, limits=("x + y <= 0.5",))
    within = []
    for number in range(40):
        config = search.suggest(f"{number:05}")
        loss = (config["x"] - 0.9) ** 2 + (config["y"] - 0.3) ** 2
        search.on_trial_complete(
            f"{number:05}", {"loss": loss, "training_iteration": 1, **config}
        )
        within.append(config["x"] + config["y"] <= 0.5)
    assert sum(within[20:]) >= 6  # of 20; 2.5 of random ones


def test_draw_untried_finds_rare_configs_or_blames_the_rules(snapshot):
    encoding = Encoding(parse_space({"x": "uniform(0, 1)"}))
    rng = np.random.default_rng(0)
    assert draw_untried(encoding, ["x > 0.001"], set(), rng)["x"] <= 0.001
    with snapshot.raises(SpecError):
        draw_untried(encoding, ["x >= 0"], set(), rng)
