"""What a searcher knows of trials, and what of it a model is fitted to."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.searchers._observations import (
    ENDED,
    FAILED,
    Observation,
    estimate_final_losses,
)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        *(((0.5, value), FAILED) for value in (math.nan, math.inf, None, "high")),
        ((math.nan, 0.5), ENDED),
    ],
)
def test_end_without_a_number_in_the_last_report_is_failed(values, status):
    trial = Observation({"x": 1}, "random")
    for epoch, value in enumerate(values, start=1):
        trial.add(value, epoch)
    trial.end()
    assert trial.status == status
    assert list(trial.reports.values()) == [0.5]


@pytest.mark.parametrize(
    ("curves", "losses"),
    [
        ([{1: 3.0, 2: 1.0}, {1: 0.0, 2: 2.0}], [1.0, 2.0]),  # of one age
        (  # stopped ones are expected where those like them ended
            [
                {1: 1.0, 2: 0.1},
                {1: 2.0, 2: 0.3},
                {1: 3.0, 2: 0.9},
                {1: 1.5},
                {1: 9.0},
                {1: 0.5},
            ],
            [0.1, 0.3, 0.9, 0.2, 0.9 + 6e-9, 0.1 - 5e-10],
        ),
        # Not comparable
        ([{10: 0.1}, {10: 0.9}, {1: 7.0}, {1: 5.0}], [0.1, 0.9, 0.9, 0.1]),
        (
            [{1: 1.0, 2: 0.5}, {1: 1.1, 2: 0.6}, {1: 2.0, 2: 1e308}, {1: 1.05}],
            [0.5, 0.6, 1e100, 0.55],
        ),
    ],
)
def test_expected_losses_compare_trials_at_equal_epochs(curves, losses):
    np.testing.assert_allclose(estimate_final_losses(curves), losses, rtol=1e-12)


loss = st.integers(-640, 640).map(lambda k: k / 128)  # sums of these are exact
curve = st.lists(loss, min_size=1, max_size=6).map(
    lambda losses: dict(enumerate(losses, start=1))
)


@given(st.lists(curve, min_size=1, max_size=8), st.randoms())
def test_expected_losses_depend_neither_on_order_nor_on_a_drop_shared_by_all_epochs(
    curves, random
):
    shuffled = random.sample(range(len(curves)), len(curves))
    losses = estimate_final_losses(curves)
    assert np.allclose(
        estimate_final_losses([curves[i] for i in shuffled]), losses[shuffled]
    )
    last = max(max(c) for c in curves)
    moved = [{t: loss - 100 * t for t, loss in c.items()} for c in curves]
    assert np.allclose(estimate_final_losses(moved), losses - 100 * last, atol=1e-6)
