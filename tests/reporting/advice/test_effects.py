"""The effects of hyperparameters."""

import numpy as np
import pytest
from recorded import around, losses, record

from tuner.reporting.advice.effects import (
    compute_normal_scores,
    estimate_effects,
    rank_values,
)

COUNT = 60  # searches


def test_effects_separate_what_matters_from_what_does_not():
    effects = estimate_effects(
        record(lambda u_D, rng: losses(float(u_D[0]) + 0.01 * rng.random()))
    )
    lr, momentum = effects.singles
    assert (lr.names, momentum.names) == (("lr",), ("momentum",))
    assert lr.share > 0.9 > 0.3 > momentum.high
    assert effects.total > 0.9


def test_effects_find_a_pair_that_matters_only_together():
    centred = record(
        lambda u_D, rng: losses(1 + float((u_D[0] - 0.5) * (u_D[1] - 0.5)))
    )
    effects = estimate_effects(centred)
    assert effects.pairs[0].p < 1e-6
    assert max(single.p for single in effects.singles) > 0.01


def test_effects_of_few_trials_say_how_many_are_needed():
    effects = estimate_effects(record(around(0.5, 0.5), 10))
    assert (effects.n, effects.needed, effects.singles) == (10, 1 + 4 + 12, ())


def test_effects_upper_bound_holds_as_often_as_it_says():
    """Of noise alone the true share is 0, and p is uniform."""
    singles = [
        single
        for seed in range(COUNT)
        for single in estimate_effects(
            record(lambda u_D, rng: losses(1 + rng.normal(), 1), 40, seed=seed)
        ).singles
    ]
    assert all(single.high >= 0 for single in singles)
    small = np.mean([single.p < 0.1 for single in singles])
    assert small == pytest.approx(0.1, abs=4 * (0.09 / len(singles)) ** 0.5)


def test_ranks_of_equals_are_their_mean():
    assert rank_values(np.array([5.0, 1.0, 5.0, 9.0])).tolist() == [2.5, 1, 2.5, 4]
    assert compute_normal_scores(np.array([1.0, 2.0, np.inf])).tolist()[
        1
    ] == pytest.approx(0)
