"""What every strategy but grid makes of priors."""

import numpy as np
import pytest
from searches import search_of

SPACE = {
    "lr": "loguniform(1e-4, 1, prior=1e-2)",
    "kind": "choice(['a', 'b', 'c'], prior='b')",
}
STRATEGIES = ("random", "bayesopt", "hyperopt", "bohb", "mixed")


def suggested(strategy, count, space=SPACE, **how):
    """Configs whose loss is the distance of log10(lr) from -0.5, or is the same for all."""
    search = search_of(strategy, space, seed=1, **how)
    configs = []
    for number in range(count):
        config = search.suggest(f"{number:05}")
        configs.append(config)
        loss = abs(np.log10(config["lr"]) + 0.5)
        search.on_trial_complete(
            f"{number:05}", {"loss": loss, "training_iteration": 1}
        )
    return configs


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_suggest_begins_with_what_is_expected(strategy):
    assert suggested(strategy, 1) == [{"lr": 0.01, "kind": "b"}]


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_what_is_expected_comes_before_the_users_points_once(strategy):
    expected = {"lr": 0.01, "kind": "b"}
    point = {"lr": 0.1, "kind": "c"}
    for points in ([point], [expected, point]):
        assert suggested(strategy, 2, points_to_evaluate=points) == [expected, point]


@pytest.mark.parametrize("strategy", ["bayesopt", "hyperopt", "bohb"])
def test_suggest_leaves_a_wrong_prior_as_evidence_comes(strategy):
    wrong = {"lr": "loguniform(1e-4, 1, prior=1e-4)"}
    last = suggested(strategy, 40, wrong)[-10:]
    assert np.median([abs(np.log10(config["lr"]) + 0.5) for config in last]) < 0.5


def test_random_search_draws_from_a_prior_ever_more_rarely():
    wrong = {"lr": "loguniform(1e-4, 1, prior=1e-4)"}
    configs = suggested("random", 200, wrong)
    small = np.array([config["lr"] < 1e-3 for config in configs])
    assert small[100:].mean() + 0.1 < small[:40].mean()
